"""Leadline's evaluators and results in other tools: see ``docs/bridges.md``.

:mod:`.answer_scorer` scores single answers; :mod:`.inspect_scorer`, :mod:`.mlflow_scorer` and :mod:`.mlflow_run` give
that, and whole results, to tools that are imported only when they are asked for. Users import :mod:`leadline.inspect`
and :mod:`leadline.mlflow`.
"""
