"""Evaluators of what answers cite and quote: do the retrieved contexts say so?"""
