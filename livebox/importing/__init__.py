"""Brings runs over that were kept in two tables, a registration and a row that whoever reported last overwrote."""
