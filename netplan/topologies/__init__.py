"""What carries: a spec becomes counts, levels, a graph and cables."""
