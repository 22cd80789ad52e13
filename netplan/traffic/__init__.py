"""What the cluster carries: models, accelerators, and the times of collectives."""
