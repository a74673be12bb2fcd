"""The files of a run for programs: tables, JSON, JUnit, SARIF; and its report."""
