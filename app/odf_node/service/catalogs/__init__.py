"""Descriptions of datasets for catalogues and search engines: Croissant, schema.org, DCAT, site
maps."""
