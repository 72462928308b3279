"""Who may bring definitions of datasets into force."""
