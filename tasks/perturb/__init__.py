"""Perturbing: copies of cases whose question is worded otherwise, to see whether the answers still hold.

``registry`` names the perturbations, ``intensity`` says how much they change, ``characters``, ``words``, ``encodings``,
``thesaurus`` and ``misinformation`` do it, and ``perturbing`` writes a suite with the originals and their copies.
``docs/perturb.md`` is the users' page.
"""
