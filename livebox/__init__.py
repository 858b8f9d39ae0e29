"""Livebox: a spec-first server that keeps an AI agent's run as an object of its own."""
