"""Which of several fabrics to take, by one rule, and what would change that."""
