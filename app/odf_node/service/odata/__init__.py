"""OData: datasets as a read-only feed. Source: OData 4.01, Protocol and URL Conventions."""
