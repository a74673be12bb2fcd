"""DuckDB: connections to a run's database, its tables, and the SQL statements."""
