"""The flows that tie the steps together, and the command line."""
