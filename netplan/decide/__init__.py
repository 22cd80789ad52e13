"""Candidates in, one record out: what to buy, what separates it from the next, what flips it."""
