"""Evaluators of predicted labels: accuracy, precision, recall, confusion."""
