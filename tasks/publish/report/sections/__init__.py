"""The sections of the report, a module each with its templates beside it."""
