"""Tests of the iteration models and the plan search."""
