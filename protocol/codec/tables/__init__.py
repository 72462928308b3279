"""The wire model as data: every table's fields in slot order, every union, every enum.

One module for each of `protocol/metadata`, and of its name. Slots follow from the order: a
field takes one slot, a union two (discriminator, then offset). Scalars that are not required
are written whenever set; required ones are left out when they equal zero. The interpreter in
`encode.py` and `decode.py` knows the kinds of values in `field.py` and nothing about any
single table.
Source: ODF FlatBuffers schemas up to the newest a reference peer writes.
"""

from .field import Field
from .merged import TABLES
from .unions import ENUMS, UNIONS

__all__ = ["ENUMS", "TABLES", "UNIONS", "Field"]
