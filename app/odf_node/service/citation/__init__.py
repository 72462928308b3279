"""How to cite a dataset: a sentence, BibTeX and CITATION.cff, on its page and as files."""
