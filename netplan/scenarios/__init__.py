"""What a planner says once: the cluster, what runs on it, and the books; each a frozen struct."""
