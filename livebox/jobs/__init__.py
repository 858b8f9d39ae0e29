"""What every process does by itself from time to time. There is no leader: each job may run everywhere at once."""
