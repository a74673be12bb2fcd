"""Judges and people: labels and what they correct (``labels``), and whether a judge is still the same (``drift``)."""
