"""Fabrics from a graph of your own: read or made, told by its links, with rates as measured."""
