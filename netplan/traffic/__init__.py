"""Who sends what to whom over which links, and how long that takes."""
