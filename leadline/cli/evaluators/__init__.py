"""List and check evaluators, suites, policies and models."""
