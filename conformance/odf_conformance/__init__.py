"""Black-box checks of any ODF node by a client that is as strict as the reference client."""
