"""The flow that asks models under test for their answers."""
