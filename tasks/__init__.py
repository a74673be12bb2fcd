"""The steps of a run, one module each, and the store that they share.

load → plan → score → gather → aggregate → flips → problems → insights → publish. Each step is a plain function
that takes paths and frozen values and returns paths and counts; ``tasks.steps`` makes Prefect tasks of them.
"""
