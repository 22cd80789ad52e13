"""Iteration model ``calibrated`` under software of a date: blocks of layers, experts, hybrids."""
