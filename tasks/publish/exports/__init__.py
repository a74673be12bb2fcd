"""The files of a run for programs: tables, JUnit, the results tree, Databricks columns."""
