"""The sections of the report, with their templates beside them."""
