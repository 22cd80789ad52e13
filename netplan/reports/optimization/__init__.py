"""The cheapest and fastest networks of a cluster: the whole front of cost against time, proven."""
