"""Evaluators of the robustness family."""
