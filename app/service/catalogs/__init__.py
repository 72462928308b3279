"""Datasets told to catalogues and search engines: Croissant, schema.org, DCAT, site maps."""
