"""What a service asks of a worker and what it is answered: one module a kind of job."""
