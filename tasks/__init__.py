"""The steps of a run, a folder each, and what they share. Read ``pipeline.py`` first: it names the steps in order.

``load → plan → score → analyse → publish`` are the steps; ``store``, ``ledger``, ``runs`` and ``db`` are what they
share; ``compare``, ``collect``, ``generate`` and ``perturb`` are jobs of their own. Each step is a plain
function that takes paths and frozen values and returns paths and counts; the flow makes Prefect tasks of them.
"""
