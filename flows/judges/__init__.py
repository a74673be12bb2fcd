"""Checking whether judges are still the ones that were enrolled: on command, and by a schedule."""
