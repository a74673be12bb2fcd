"""Evaluators that compare the answers of two models to the same case: which is better?"""
