"""The flow that makes perturbed copies of a suite's cases."""
