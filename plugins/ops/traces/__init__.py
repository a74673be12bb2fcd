"""Runs for OpenTelemetry: their spans, their numbers as metrics, and their scores as events."""
