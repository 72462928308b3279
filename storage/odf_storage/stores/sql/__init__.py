"""Tables, connections and queries shared by the SQL adapters."""

from . import attempt_tables as attempt_tables
from . import audit_tables as audit_tables
from . import damage_tables as damage_tables
from . import definition_tables as definition_tables
from . import mirror_tables as mirror_tables
