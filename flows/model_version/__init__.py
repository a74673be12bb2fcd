"""The flow for a new version of a model."""
