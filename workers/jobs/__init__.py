"""What a worker does: one package a kind of job."""
