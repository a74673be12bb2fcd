"""Judges and people: a judge's scores corrected by labels, its noise, its drift, and when enough rows are judged."""
