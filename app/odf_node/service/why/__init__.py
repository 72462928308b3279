"""Why a row is there: provenance of rows and cells, down to what was posted or polled."""
