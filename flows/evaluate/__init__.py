"""The main flow: a file of answers becomes a scored, explained report."""
