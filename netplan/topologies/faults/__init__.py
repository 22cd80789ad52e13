"""Faults: which parts of a fabric fail, who is cut off, and what bandwidth remains.

Everything works on the arrays of a graph. *Scenarios* and *risk groups* say what fails together,
*damage* is the outcome as two masks, and the rest is what the damage does: parts that hang
together, bandwidth between HB domains, loads after rerouting, throughput of many scenarios.
"""
