"""What breaks, how often, and what is left."""
