"""How often parts fail, what that costs a job over the years, and what to keep for it."""
