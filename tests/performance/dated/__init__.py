"""Tests of iteration model calibrated under software of a date."""
