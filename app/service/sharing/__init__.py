"""Delta Sharing: datasets as shared tables. Source: Delta Sharing protocol."""
