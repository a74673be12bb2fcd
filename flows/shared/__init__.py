"""Parts that several flows share: settings, judges of a run, progress and output files."""
