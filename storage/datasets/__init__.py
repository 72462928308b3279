"""One dataset as a thing: committed to, read, rewritten, verified, looked after."""
