"""Local models: which weights an evaluator needs, loading them once, and running them well."""
