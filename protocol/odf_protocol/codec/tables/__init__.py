"""The wire model as data: the fields of every table in slot order, every union, every enum.

Each module of `odf_protocol/metadata` has a module of the same name here. Slots follow from the
order: a field takes one slot, a union two (discriminator, then offset). Optional scalars are
written whenever they are set; required scalars are left out if they are zero. The interpreter in
`encode.py` and `decode.py` knows the wires in `field.py` and nothing about any single table.
Source: ODF FlatBuffers schemas up to the newest a reference peer writes.
"""

from .field import Field
from .merged import TABLES
from .unions import ENUMS, UNIONS

__all__ = ["ENUMS", "TABLES", "UNIONS", "Field"]
