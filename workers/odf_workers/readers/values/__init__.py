"""Texts and values as readers take them: encodings, records, JSON, features, rejected rows."""
