"""Perturbing: copies of cases with a reworded question, to see whether the answers change.

:mod:`.perturbations` lists the perturbations and :mod:`.intensity` their strengths; :mod:`.characters`, :mod:`.words`,
:mod:`.encodings` and :mod:`.thesaurus` change the texts, and :mod:`.copies` writes a suite with the originals and their
copies. ``docs/perturb.md`` is the page for users.
"""
