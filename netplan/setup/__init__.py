"""What a question is, and what several need before they answer: the run, its place, its plan."""
