"""News of datasets: streams, feeds, webhooks; all from the log of head moves."""
