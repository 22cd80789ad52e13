"""Random input against the command line, and what must hold whatever the input."""
