"""Kernels on chips: what is kept together, which chips share a model, and what that takes."""
