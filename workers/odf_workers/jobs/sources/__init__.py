"""Jobs that read sources: polls, and trials of definitions before they are created."""
