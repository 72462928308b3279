"""What a source says of its files: options, rules, marks, templates and patterns of times."""
