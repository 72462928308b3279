"""Black-box checks of any ODF node, by a client as strict as the reference's."""
