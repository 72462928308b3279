"""Data slices: write rows to them, and the parts shared by readers and merges."""
