"""Jobs as clients see them: status, waiting, cancellation."""
