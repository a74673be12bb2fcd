"""Asking a judge: the bases of judge evaluators, prompts, replies and verdicts. The engine below makes the calls."""
