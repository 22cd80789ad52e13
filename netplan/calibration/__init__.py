"""Fits of what models reach to what was measured: runs, kernels, collectives."""
