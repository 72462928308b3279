"""Every Python block of docs/delta-sharing.md runs, from top to bottom, against a node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyarrow as pa
from service import serving
from sharing_client import required_python
from table_made import TableMade

PAGE = Path(__file__).parents[2] / "docs" / "delta-sharing.md"
CITIES = pa.schema([("city", pa.string()), ("population", pa.int64())])


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    python = required_python()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    program = "\n".join(blocks) + "\nprint(len(frame), len(earlier), len(changes))\n"
    with serving(tmp_path / "node") as service:
        cities = TableMade(service.node.stores, "kamu/cities", CITIES)
        cities.add([{"city": "Oslo", "population": 717_000}])
        cities.add([{"city": "Oslo", "population": 717_000}], [1])
        cities.add([{"city": "Rome", "population": 2_800_000}])
        with service.http(service.token()) as http:
            profile = http.get("/delta-sharing/profile").content
        (tmp_path / "config.share").write_bytes(profile)
        done = subprocess.run(
            [python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "Table(name='cities', share='kamu', schema='default')" in done.stdout
    assert done.stdout.split()[-3:] == ["1", "1", "3"]
