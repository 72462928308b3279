"""All fuzz targets by name, each with the inputs a run starts from: the known answers.

Crashes that were found stay in `tests/fuzz/crashes/<target>/` and are replayed by the tests.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from kartothek_vectors import KARTOTHEK, state_files
from known import document, vectors
from raw_arrow import bare_schema
from tests.fuzz.arrow_targets import fuzz_arrow_schema, fuzz_ddl
from tests.fuzz.kartothek_targets import (
    fuzz_kartothek_address,
    fuzz_kartothek_key,
    fuzz_kartothek_schema,
    fuzz_kartothek_state,
)
from tests.fuzz.targets import (
    fuzz_block,
    fuzz_engine_message,
    fuzz_manifest,
    fuzz_multihash,
    fuzz_reference,
)
from tests.fuzz.transfer_targets import COMPRESS, COUNT, KINDS, MEND, fuzz_bundle, fuzz_message
from tests.fuzz.trust_targets import fuzz_trust, trust_seeds

from odf_protocol.codec.blocks import decode_block
from odf_protocol.codec.manifests import to_yaml
from odf_protocol.kartothek.source import SCHEMES
from odf_protocol.multihash import Multihash

CRASHES = Path(__file__).parent / "crashes"
SNAPSHOT = Path(__file__).parents[2] / "examples" / "weather" / "weather.yaml"
HASH = str(Multihash.of(b""))


@dataclass(frozen=True, slots=True)
class Target:
    """A function that takes anything, and inputs from which a fuzzer sets out."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    max_bytes: int = 4096


def _blocks() -> Iterator[bytes]:
    for vector in vectors("blocks"):
        yield bytes.fromhex(vector["bytes"])


def _engine_messages() -> Iterator[bytes]:
    for vector in vectors("engine-messages"):
        yield bytes.fromhex(vector["bytes"])


def _manifests() -> Iterator[bytes]:
    for vector in (*vectors("blocks"), *vectors("blocks-invalid")):
        if "manifest" in vector:
            yield json.dumps(vector["manifest"]).encode()
            yield to_yaml(vector["manifest"]).encode()
    for vector in vectors("blocks")[:20]:
        event = vector["manifest"]["content"]["event"]
        yield to_yaml({"kind": "MetadataEvent", "version": 1, "content": event}).encode()
    yield SNAPSHOT.read_bytes()


def _hashes() -> Iterator[bytes]:
    for vector in vectors("hashes"):
        for value in vector.values():
            texts = value.values() if isinstance(value, dict) else (value,)
            for text in filter(lambda part: isinstance(part, str), texts):
                yield text.encode()
        if isinstance(vector.get("multihash"), str):
            yield bytes.fromhex(vector["multihash"])


def _references() -> Iterator[bytes]:
    for vector in (*vectors("refs-grammar"), *vectors("dataset-ids")):
        if isinstance(vector.get("text"), str):
            yield vector["text"].encode()


def _bundles() -> Iterator[bytes]:
    raws = list(_blocks())[:3]
    for format_ in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        for folder in ("", "x" * 110 + "/"):
            tar = _tar(raws, folder, format_)
            yield bytes([3 * COUNT | COMPRESS]) + tar
            yield bytes([3 * COUNT | COMPRESS | MEND]) + tar
            yield bytes([3 * COUNT]) + gzip.compress(tar)


def _tar(raws: list[bytes], folder: str, format_: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as tar:
        for raw in raws:
            info = tarfile.TarInfo(folder + str(decode_block(raw).hash))
            info.size = len(raw)
            if format_ == tarfile.PAX_FORMAT:
                info.mtime = 1.5
            tar.addfile(info, io.BytesIO(raw))
    return out.getvalue()


_PLAN = {
    "num_blocks": 4,
    "num_objects": 2,
    "num_records": 10,
    "bytes_in_raw_blocks": 1234,
    "bytes_in_raw_objects": 56789,
}
_FILE = {"object_type": "DataSlice", "physical_hash": HASH, "size": 12345}
_URL = {"url": "https://host/x", "headers": [{"name": "a", "value": "b"}], "expires_at": None}
_BATCH = {
    "num_blocks": 1,
    "media_type": "application/tar+gzip",
    "encoding": "raw",
    "payload": [31, 139, 8, 0],
}
_FAILED = {"phase": {"Push": "ObjectsRequest"}, "error_message": "Internal error"}
_TEXTS: tuple[Any, ...] = (
    {},
    {"Ok": {}},
    {"Ok": {"transfer_plan": _PLAN}},
    {"Err": {"InvalidInterval": {"head": HASH, "tail": HASH}}},
    {"Err": {"InvalidHead": {"actual_head": None, "expected_head": HASH}}},
    {"Err": {"Internal": _FAILED}},
    {"Err": {"RefCollision": {"dataset_id": "did:odf:fed01" + "ab" * 32}}},
    {"blocks": _BATCH},
    {"new_blocks": _BATCH},
    {"object_files": [_FILE]},
    {"begin_after": None, "stop_at": HASH, "force_update_if_diverged": False},
    {
        "current_head": HASH,
        "transfer_plan": _PLAN,
        "force_update_if_diverged": True,
        "visibility_for_created_dataset": "private",
    },
    {
        "object_transfer_strategies": [
            {"object_file": _FILE, "pull_strategy": "HttpDownload", "download_from": _URL},
            {
                "object_file": _FILE,
                "push_strategy": "HttpUpload",
                "upload_to": {**_URL, "expires_at": "2050-01-01T12:00:00Z"},
            },
        ]
    },
    {"details": {"Running": {"uploaded_objects_count": 1, "total_objects_count": 2}}},
)


def _messages() -> Iterator[bytes]:
    for kind in range(len(KINDS)):
        for text in _TEXTS:
            yield bytes([kind]) + json.dumps(text).encode()


def _arrow_schemas() -> Iterator[bytes]:
    for vector in vectors("blocks"):
        raw = vector["manifest"]["content"]["event"].get("rawArrowSchema")
        if raw:
            yield base64.b64decode(raw)
    inner = pa.struct([("a", pa.list_(pa.decimal128(20, 3))), ("b", pa.map_("utf8", "int64"))])
    yield bare_schema(pa.schema([("s", inner), ("d", pa.dictionary("int8", "utf8"))]))
    yield bare_schema(
        pa.schema(
            [
                pa.field("t", pa.timestamp("ns", "UTC"), nullable=False, metadata={"k": "v"}),
                ("f", pa.binary(5)),
                ("l", pa.list_(pa.float16(), 3)),
                ("r", pa.run_end_encoded("int32", "utf8")),
                ("v", pa.string_view()),
                ("u", pa.dense_union([pa.field("x", pa.int8()), pa.field("y", pa.date64())])),
                ("i", pa.month_day_nano_interval()),
                ("z", pa.time32("s")),
                ("q", pa.duration("us")),
            ],
            metadata={"a": "b"},
        )
    )


def _ddl() -> Iterator[bytes]:
    for case in document("ingest/ddl")["cases"]:
        columns = case["given"].get("ddl")
        if isinstance(columns, list):
            yield "\n".join(columns).encode()


def _kartothek_states() -> Iterator[bytes]:
    for _, path in state_files():
        yield path.read_bytes()
    yield b'{"dataset_metadata_version": 4, "dataset_uuid": "u", "partitions": {}}'


def _kartothek_schemas() -> Iterator[bytes]:
    for path in KARTOTHEK.rglob("_common_metadata"):
        yield path.read_bytes()


def _kartothek_keys() -> Iterator[bytes]:
    for path in KARTOTHEK.rglob("*.parquet"):
        yield str(path.relative_to(KARTOTHEK)).encode()


def _kartothek_addresses() -> Iterator[bytes]:
    for scheme in SCHEMES:
        yield f"{scheme}://host/folder/u-1".encode()
        yield f"{scheme}:///a%20b/u?table=core".encode()
    yield b"kartothek+s3+http://u:p@[::1]:9000/b/..%2Fx/u?table=a%2Fb#f"


TARGETS: dict[str, Target] = {
    "arrow_schema": Target(fuzz_arrow_schema, _arrow_schemas),
    "block": Target(fuzz_block, _blocks),
    "bundle": Target(fuzz_bundle, _bundles, max_bytes=16_384),
    "ddl": Target(fuzz_ddl, _ddl, max_bytes=1024),
    "engine_message": Target(fuzz_engine_message, _engine_messages),
    "kartothek_address": Target(fuzz_kartothek_address, _kartothek_addresses, max_bytes=600),
    "kartothek_key": Target(fuzz_kartothek_key, _kartothek_keys, max_bytes=600),
    "kartothek_schema": Target(fuzz_kartothek_schema, _kartothek_schemas, max_bytes=8192),
    "kartothek_state": Target(fuzz_kartothek_state, _kartothek_states),
    "manifest": Target(fuzz_manifest, _manifests),
    "message": Target(fuzz_message, _messages),
    "multihash": Target(fuzz_multihash, _hashes, max_bytes=600),
    "reference": Target(fuzz_reference, _references, max_bytes=600),
    "trust": Target(fuzz_trust, trust_seeds),
}
