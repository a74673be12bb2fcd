"""The judge client: one for every LLM judge, with one owner of retries, one limiter per model and a ledger."""
