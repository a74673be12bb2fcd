"""List, query and export runs, and look after the store."""
