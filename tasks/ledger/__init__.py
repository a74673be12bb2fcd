"""The ledger: every judge call's intent, raw reply and verdict, kept where ``kill -9`` does not reach them."""
