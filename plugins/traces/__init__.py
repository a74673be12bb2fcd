"""Traces that applications record, read as conversations: OpenTelemetry, Langfuse, MLflow, LangSmith."""
