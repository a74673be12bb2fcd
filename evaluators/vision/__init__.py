"""Evaluators of vision: detection, instance segmentation, semantic segmentation."""
