"""Scoring chunks elsewhere: on Prefect workers, or here where there are none."""
