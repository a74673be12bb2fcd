"""Certify, compare and watch judges, and see what they cost."""
