"""The work of a worker: one package for each kind of job."""
