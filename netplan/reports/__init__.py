"""Answers: comparisons, verification, tables and formats."""
