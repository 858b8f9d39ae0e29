"""The demo: Lotse, a small agent that does real work, and the scenario that shows a run of it."""
