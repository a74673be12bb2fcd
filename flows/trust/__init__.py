"""Trust in judges: asking them about the rows that people labelled."""
