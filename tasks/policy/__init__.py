"""The gate's policy: the role of each metric, its threshold, and how much may go wrong before a run fails."""
