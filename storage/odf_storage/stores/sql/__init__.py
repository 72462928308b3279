"""Tables, connections and queries shared by the SQL adapters."""
