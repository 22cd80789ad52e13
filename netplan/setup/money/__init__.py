"""Prices of a question: books, sources, what is missing, costs of runs and tokens."""
