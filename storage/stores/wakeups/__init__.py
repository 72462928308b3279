"""Wake-ups: how processes of a node tell each other of changes, so that nobody polls."""
