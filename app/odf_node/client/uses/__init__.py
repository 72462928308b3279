"""What a client does at a node beside transfer: login, events, descriptions, history."""
