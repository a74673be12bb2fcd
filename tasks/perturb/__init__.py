"""Perturbing: copies of cases with a reworded question, to see whether the answers change.

:mod:`.perturbations` lists the perturbations with their strengths; :mod:`.text_edits` changes the texts, with synonyms
from :mod:`.thesaurus`, and :mod:`.copies` writes a suite with the originals and their copies.
``docs/perturb.md`` is the page for users.
"""
