"""The parts that every evaluator is made of: metrics, parameters, the context, the base classes and the registry."""
