"""Drawings as SVG: a fabric by its tiers, a small network node by node, racks and the hall."""
