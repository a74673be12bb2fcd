"""Conversations in the formats of agent frameworks and benchmarks: Google's ADK, ATIF, τ²-bench and BFCL."""
