"""The gateway: one WebSocket for each device, the log to all of them, and work for agents."""
