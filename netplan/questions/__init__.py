"""One class a question: inputs in, a declared answer out."""
