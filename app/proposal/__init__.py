"""What a file would be as a dataset: proposed from its beginning, for a person to decide.

Nothing here opens files or asks anybody: `propose` is a function of some bytes and a name, for the
command line and for the form in the browser. It is no second reader of files. It says how a file
could be declared; the node reads the file by that declaration, strictly, and refuses what does not
fit with its line.
"""
