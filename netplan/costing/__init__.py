"""Counts become one bill: money, power, spares."""
