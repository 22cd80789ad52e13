"""What `netplan simulate` joins: its inputs, jobs side by side, tiles, steps of post-training."""
