"""Webhooks of model registries: they become events, which start flows."""
