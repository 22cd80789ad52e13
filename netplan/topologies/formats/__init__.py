"""Graphs in and out: the file formats of other tools.

Writers yield lines of text and touch no files; readers take a path, and their errors begin with
the file and the line. What a reader returns is a fabric like any other.
"""
