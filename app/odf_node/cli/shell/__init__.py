"""What all commands share: output and exit codes, help, tokens, files, one request to a node."""
