"""Families of fabrics: each is counts, levels and a graph, made from one spec."""
