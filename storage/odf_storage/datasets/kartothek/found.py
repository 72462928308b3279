"""Find the state file of a dataset in a store, and read the state."""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.kartothek.errors import NoKartothek
from odf_protocol.kartothek.keys import checked_uuid, state_keys
from odf_protocol.kartothek.state import MAX_STATE_BYTES, State, decode_json, decode_msgpack

from ...stores.ports import KeyedReads
from ...stores.ports.keyed_values import Content


@dataclass(frozen=True, slots=True)
class FoundState:
    """A state file: its key, its content, and the decoded state."""

    key: str
    content: Content
    state: State


def state_file(store: KeyedReads, uuid: str) -> tuple[str, Content] | None:
    """Return key and content of the state file, JSON before MessagePack; None if there is none.

    Raises `KeyedFileTooLarge`, and the errors of the store.
    """
    for key in state_keys(checked_uuid(uuid)):
        content = store.read(key, most=MAX_STATE_BYTES)
        if content is not None:
            return key, content
    return None


def find_state(store: KeyedReads, uuid: str) -> FoundState:
    """Return the state of a dataset.

    Raises:
        NoKartothek, MalformedState, and the errors of the store.
    """
    found = state_file(store, uuid)
    if found is None:
        raise NoKartothek(uuid)
    key, content = found
    decode = decode_json if key == state_keys(uuid)[0] else decode_msgpack
    return FoundState(key, content, decode(content.raw, key=key, uuid=uuid))
