"""What the fabrics are: from a spec to counts and levels."""
