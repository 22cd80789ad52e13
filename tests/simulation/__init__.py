"""Tests of the event simulation."""
