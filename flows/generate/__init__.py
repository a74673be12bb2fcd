"""The flow that makes a dataset from documents."""
