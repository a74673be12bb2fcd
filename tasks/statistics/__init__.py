"""Numbers only: intervals, comparisons, corrections by labels, a judge's noise and drift, and when to stop."""
