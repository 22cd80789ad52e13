"""One question at many points, resumable, here or on a cluster."""
