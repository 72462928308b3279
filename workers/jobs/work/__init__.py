"""What all jobs work with."""
