"""Run a service: servers, workers, new versions and events."""
