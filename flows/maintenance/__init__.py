"""The flow that keeps a store small, whole and copied."""
