"""Serving: plans, steps, memory, queues, and the search over them; published forms beside."""
