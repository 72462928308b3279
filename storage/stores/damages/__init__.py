"""Objects of datasets that were found damaged or missing, until they are whole again."""
