"""Prefect: which server a run talks to, its outages, steps as tasks, events, and requests from outside."""
