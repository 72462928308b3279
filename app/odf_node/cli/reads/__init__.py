"""Commands that read rows: by projection, by SQL, by a language model, and why a row is there."""
