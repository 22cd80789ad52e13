"""Studies: one question at many points, kept in a store, worked through by many processes."""
