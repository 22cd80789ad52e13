"""Graphs in and out: the file formats of other tools.

Writers yield lines of text and touch no files. Readers take a path and ``hb_size``, the GPUs per HB
domain in the order of the GPUs' names, and return a fabric like any other. A file that is malformed
or whose links make no fabric is a ``CatalogError``, which begins with the file and the line.
"""
