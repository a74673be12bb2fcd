"""Publishing: the results of a run as a report for people and as files for programs. See ``docs/results.md``."""
