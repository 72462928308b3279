"""Arrow tables as pandas frames, with every whole number as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame. Whole numbers with nulls are nullable integers such as `Int64`:
    by themselves they would become floats, which round numbers above 2^53."""
    import pandas as pd
    import pyarrow as pa

    frame: pd.DataFrame = table.replace_schema_metadata(None).to_pandas()
    for at, column in enumerate(table.columns):
        if column.null_count and pa.types.is_integer(column.type):
            word = "Int" if pa.types.is_signed_integer(column.type) else "UInt"
            kind = pd.api.types.pandas_dtype(f"{word}{column.type.bit_width}")
            frame.isetitem(at, column.to_pandas(types_mapper=lambda _, kind=kind: kind))
    return frame
