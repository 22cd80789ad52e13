"""How a program lies on a machine and how long it takes: search, memory, evaluation."""
