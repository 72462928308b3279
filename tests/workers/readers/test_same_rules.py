"""The same rules convert text to values in all formats; numbers of JSON lose no part either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import BadRow, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")
DECIMAL = {"kind": "Decimal", "precision": 10, "scale": 2}
TYPES: dict[str, Any] = {
    name: name
    for name in ("Bool", "Int8", "Int64", "UInt8", "Float32", "Float64", "String", "Date", "Time")
} | {"Decimal": DECIMAL, "Timestamp": "Timestamp"}
TEXTS = (
    *("true", "TRUE", "yes", "0", "1", "-1", "+1", " 12 ", "007", "1.0", "1.7", "1e3", "1e400"),
    *("-1e400", "1e39", "1e-400", "NaN", "inf", "Infinity", "127", "128", "255", "256", "1,5"),
    *("9223372036854775807", "9223372036854775808", "123456789.125", "123456789.1", "0x10"),
    *("2025-01-01", "2025-1-1", "20250101", "2025-01-01T23:00", "2025-01-01 23:00Z"),
    *("2025-01-01T23:00:00", "2025-01-01T23:00+01", "2025-01-01 23:00 UTC", "2025-01-01T24:00"),
    *("2025-01-01T23:00:00,5", "23:00", "23:00:05", "23:00:05.5", "24:00", "1735689600"),
    *("0000-01-01", "9999-12-31T23:59:59Z", "10000-01-01", "2025-13-01", "é", "{}", "null"),
)


def read(folder: Path, kind: str, content: str, name: str) -> Any:
    """Return the value of the only row; None if it is refused."""
    schema = {"fields": [{"name": "x", "type": {"kind": "Option", "inner": TYPES[name]}}]}
    header = {"header": True} if kind == "Csv" else {}
    step: ReadStep = from_data({"kind": kind, **header, "schema": schema}, ReadStep)
    path = folder / "input"
    path.write_text(content)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    try:
        (row,) = frame.table().to_pylist()
    except BadRow:
        return None
    return repr(row["x"])


@pytest.mark.parametrize("name", TYPES)
def test_a_text_becomes_the_same_value_in_every_format(tmp_path: Path, name: str) -> None:
    for text in TEXTS:
        quoted = json.dumps(text, ensure_ascii=False)
        feature = '{"type":"Feature","geometry":null,"properties":{"x":%s}}' % quoted  # noqa: UP031
        found = {
            "Csv": read(tmp_path, "Csv", f'x\n"{text}"\n', name),
            "NdJson": read(tmp_path, "NdJson", f'{{"x":{quoted}}}\n', name),
            "Json": read(tmp_path, "Json", f'[{{"x":{quoted}}}]', name),
            "NdGeoJson": read(tmp_path, "NdGeoJson", feature + "\n", name),
        }
        assert len(set(found.values())) == 1, (text, found)


NUMBERS = {
    "Int64": {"1": "1", "1.0": "1", "1e3": "1000", "1.7": None, "1e400": None, "true": None},
    "Float64": {"1": "1.0", "1.5": "1.5", "1e400": None, "-1e400": None, "true": None},
    "Float32": {"1e39": None, "1.5": "1.5"},
    "Bool": {"true": "True", "1": None, "0": None, "1.0": None},
    "String": {
        "1": None, "1.5": None, "true": None, "[]": None,
        "18446744073709551616": "'18446744073709551616'",
    },
    "Decimal": {"1": "Decimal('1.00')", "1.129": "Decimal('1.12')", "1e400": None},
    "Timestamp": {
        "1735689600": None,
        "1735689600000": "datetime.datetime(2025, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))",
        "1.5": None,
        "true": None,
    },
    "Date": {"1": "datetime.date(1970, 1, 2)", "1.5": None},
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", ["NdJson", "Json"])
def test_a_json_number_becomes_a_value_only_if_it_loses_nothing(
    tmp_path: Path, kind: str, name: str
) -> None:
    for number, value in NUMBERS[name].items():
        record = f'{{"x":{number}}}'
        found = read(tmp_path, kind, record + "\n" if kind == "NdJson" else f"[{record}]", name)
        assert found == value, number
