"""Tests of serving: requests, prompts, tokens."""
