"""The documentation, and the script that writes the evaluators' pages."""
