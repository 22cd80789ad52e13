"""Tests of post-training's formulas."""
