"""What runs: models, accelerators, and generators that make a program of operations."""
