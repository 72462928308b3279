"""Object stores: memory, local files, S3; one contract."""
