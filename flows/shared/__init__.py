"""What several flows share: judges of a run, progress, and where commands write their file."""
