"""Wake-ups: notifications of changes between the processes of a node, which replace polling."""
