"""Prefect: which server a run talks to, its outages, steps as tasks, histories, events, and requests from outside."""
