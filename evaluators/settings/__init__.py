"""The choices of a run: its judges, models, device and limits."""
