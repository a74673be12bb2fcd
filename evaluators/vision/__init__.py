"""Evaluators of the vision family: detection, instance segmentation and semantic segmentation."""
