"""The parts that every evaluator is made of: rows, scores, metrics, parameters, the base classes and the registry."""
