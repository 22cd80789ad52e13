"""Tests of netplan; the folders mirror its rooms."""
