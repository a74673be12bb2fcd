"""Checks whether a judge is still the one that was enrolled: by probes, in epochs."""
