"""Garbage is collected again as soon as nobody asks for silence."""

from __future__ import annotations

import gc

import pytest

from odf_storage.runtime.clock import without_garbage_collection


def test_the_last_one_lets_collections_begin_again():
    first, second = without_garbage_collection(), without_garbage_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_lets_them_begin_again():
    with pytest.raises(ValueError, match="broken"), without_garbage_collection():
        raise ValueError("broken")
    assert gc.isenabled()


def test_who_collects_nothing_is_left_at_that():
    gc.disable()
    try:
        with without_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
