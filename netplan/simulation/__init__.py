"""One iteration event by event: what waits for what, on links that are shared."""
