"""Messages of Flight SQL, read from bytes that anybody may send."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing

from odf_protocol.errors import BadInput
from odf_protocol.flight_sql import (
    MAX_FIELDS,
    MAX_MESSAGE_BYTES,
    STREAM_END,
    action_of,
    bytes_field,
    command_of,
    descriptor_of,
    fields,
    flight_data,
    read_command,
    stream_part,
    ticket_of,
    written,
)

TABLES = (
    b"\n>type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables"
    b'\x12\x15\n\x04kamu"\x05TABLE"\x04VIEW(\x01'
)
"""Catalogue `kamu`, types of tables TABLE and VIEW, with schemas; as protobuf itself writes it."""


def test_fields_of_a_command_are_read_by_their_numbers():
    command = read_command(TABLES)
    assert command.name == "CommandGetTables"
    assert command.text(1) == "kamu"
    assert command.text(2) is None
    assert command.texts(4) == ["TABLE", "VIEW"]
    assert command.flag(5)


def test_repeated_numbers_are_read_packed_and_one_by_one():
    packed = read_command(written("CommandGetSqlInfo", (1, b"\x08\xf8\x03")))
    assert packed.numbers(1) == [8, 504]
    value = b"\x08\x08\x08\xf8\x03"
    single = bytes_field(1, b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetSqlInfo")
    assert read_command(single + bytes_field(2, value)).numbers(1) == [8, 504]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x0a\x05abc",
        b"\x0b",
        b"\x08" + b"\xff" * 11,
        bytes_field(1, b"type.googleapis.com/google.protobuf.Empty"),
        bytes_field(1, b"type.googleapis.com/arrow.flight.protocol.sql."),
        bytes_field(1, b"type.googleapis.com/arrow.flight.protocol.sql.\xc3\xa4"),
        b"\x00" * (MAX_MESSAGE_BYTES + 1),
    ],
)
def test_what_is_no_command_is_refused(raw):
    with refusing("MalformedCommand", "MalformedProtobuf"):
        read_command(raw)


def test_a_message_of_a_stranger_has_no_more_fields_and_numbers_than_a_limit():
    command = bytes_field(1, b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetSqlInfo")
    single = b"\x08\x01" * MAX_FIELDS
    assert read_command(command + bytes_field(2, single)).numbers(1) == [1] * MAX_FIELDS
    packed = read_command(written("CommandGetSqlInfo", (1, b"\x01" * MAX_FIELDS)))
    assert packed.numbers(1) == [1] * MAX_FIELDS
    with refusing("MalformedProtobuf", match=f"more than {MAX_FIELDS} numbers"):
        read_command(written("CommandGetSqlInfo", (1, b"\x01" * (MAX_FIELDS + 1)))).numbers(1)
    for read in (read_command, command_of, ticket_of, action_of, descriptor_of, stream_part):
        with refusing("MalformedProtobuf", match=f"more than {MAX_FIELDS} fields"):
            read(single + b"\x08\x01")
    with refusing("MalformedProtobuf", match=f"more than {MAX_FIELDS} fields"):
        read_command(command + bytes_field(2, single + b"\x08\x01"))


@given(st.binary(max_size=300), st.integers(0, 80), st.binary(max_size=4))
def test_no_bytes_do_anything_but_be_read_or_refused(some, at, other):
    for raw in (some, TABLES[:at] + other + TABLES[at + len(other) :]):
        try:
            command = read_command(raw)
            command.text(1), command.texts(4), command.flag(5), command.numbers(4)
            command.handle()
        except BadInput:
            pass


ROW = pa.record_batch({"a": ["x"], "b": [1.5]})


@pytest.mark.parametrize(
    "batch", [ROW, pa.record_batch({"w": pa.array(["x"]).dictionary_encode()})]
)
def test_messages_of_a_client_are_an_arrow_stream(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    sent = [
        flight_data(
            message.metadata.to_pybytes(), message.body.to_pybytes() if message.body else b""
        )
        for message in messages
    ]
    stream = b"".join(map(stream_part, sent)) + STREAM_END
    assert pa.ipc.open_stream(stream).read_all() == pa.Table.from_batches([batch])


def test_a_message_without_a_part_of_the_stream_adds_nothing():
    assert stream_part(bytes_field(1, b"descriptor")) == b""


@given(st.binary(max_size=100))
def test_no_bytes_of_a_client_do_anything_but_become_a_message_or_be_refused(raw):
    for read in (stream_part, descriptor_of):
        with contextlib.suppress(BadInput):
            read(raw)


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=300))))
def test_fields_that_were_written_are_read_again(some):
    raw = b"".join(bytes_field(number, content) for number, content in some)
    assert list(fields(raw)) == some
