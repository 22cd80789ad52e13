"""How fast the cluster trains: placements, iteration models, the plan search."""
