"""One reader a format, the choice among them, and the cuts by which large files are read."""
