"""Propose a dataset for a file from the beginning of the file; a person decides.

This package opens no files and sends no requests: `propose` is a function of some bytes and a name,
used by the command line and by the form in the browser. It is not a second reader of files. It
proposes how a file could be declared; the node reads the file strictly by that declaration, and
refuses the lines that do not fit.
"""
