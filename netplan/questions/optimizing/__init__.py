"""The designs that netplan optimize looks at, and the front of those that nothing beats."""
