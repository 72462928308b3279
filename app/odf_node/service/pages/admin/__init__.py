"""Pages of admins: accounts, jobs, storage, audit log."""
