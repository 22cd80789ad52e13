"""Cables, names and racks of a hall: as planned, as built, and what differs."""
