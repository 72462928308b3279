"""DuckLake: all datasets that a caller may read as one lake. Source: DuckLake specification 1.0."""
