"""Tables, connections and queries shared by the SQL adapters."""

from . import mirror_tables as mirror_tables
