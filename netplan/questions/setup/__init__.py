"""What several questions set up alike: the network, the run, its placement, the workload."""
