"""What breaks, and what is left of a graph."""
