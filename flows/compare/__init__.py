"""The flow that compares two runs, models or versions."""
