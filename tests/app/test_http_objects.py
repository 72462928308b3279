"""Simple transfer as a client sees it: references, verbatim bytes, ranges, uploads."""

from __future__ import annotations

import email
import email.policy
import socket

import pytest
from multiformats import multibase
from service import seeded, serving, ten_rows

from odf_protocol.codec.blocks import encode_block
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind, Scope, Visibility


@pytest.fixture(scope="module")
def chain(single):
    chain = ten_rows()
    single.keep(chain)
    return chain


@pytest.fixture
def get(single, chain):
    with single.http() as client:
        yield client.get


def _paths(chain):
    yield f"/foo/blocks/{chain.head}", chain.blocks[-1].raw
    folders = {ObjectKind.DATA: "data", ObjectKind.CHECKPOINT: "checkpoints"}
    for (kind, name), content in chain.objects.items():
        yield f"/foo/{folders[kind]}/{name}", content


def parts_of(answer):
    """Content-Range and body of each part, read by the standard library."""
    head = f"Content-Type: {answer.headers['content-type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + answer.content, policy=email.policy.HTTP)
    return [(part["content-range"], part.get_payload(decode=True)) for part in message.walk()][1:]


def test_head_is_the_bare_hash_without_a_newline(get, chain):
    answer = get("/foo/refs/head")
    assert answer.content == str(chain.head).encode()
    assert len(answer.content) == 69
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_names_are_found_in_any_case(get, chain):
    assert get("/FOO/refs/head").text == str(chain.head)


def test_only_head_is_a_known_reference(get):
    answer = get("/foo/refs/other")
    assert answer.status_code == 404
    assert "other" in answer.json()["message"]


def test_objects_are_served_verbatim_with_length_and_lasting_etag(get, chain):
    for path, content in _paths(chain):
        answer = get(path)
        assert answer.content == content
        assert answer.headers["content-length"] == str(len(content))
        assert answer.headers["etag"] == f'"{path.rpartition("/")[2]}"'
        assert "immutable" in answer.headers["cache-control"]
        assert "content-encoding" not in answer.headers


def test_a_slice_is_saved_as_a_parquet_file_however_it_is_asked_for(single, chain):
    """By the quick way, with an origin, by HEAD, in part; blocks and checkpoints have no suffix."""
    asked = [("GET", {}), ("GET", {"origin": "http://a.example"}), ("HEAD", {})]
    asked.append(("GET", {"range": "bytes=1-3"}))
    found = set()
    with single.http() as client:
        for kind, name in chain.objects:
            folder = {ObjectKind.DATA: "data", ObjectKind.CHECKPOINT: "checkpoints"}[kind]
            for method, headers in asked:
                answer = client.request(method, f"/foo/{folder}/{name}", headers=headers)
                found.add((kind, name, answer.headers.get("content-disposition")))
        block = client.get(f"/foo/blocks/{chain.blocks[0].hash}")
    assert "content-disposition" not in block.headers
    assert found == {
        (kind, name, f'attachment; filename="{name}.parquet"' if kind is ObjectKind.DATA else None)
        for kind, name in chain.objects
    }


def test_a_block_of_the_older_version_keeps_its_bytes(single):
    older = seeded()
    block = encode_block(older.blocks[0].block, version=2)
    older.blocks = [block]
    single.keep(older, "kamu/older")
    with single.http() as client:
        answer = client.get(f"/older/blocks/{block.hash}")
    assert answer.content == block.raw != encode_block(block.block).raw


def test_the_hash_may_come_in_any_multibase(get, chain):
    base58 = multibase.encode(chain.head.raw, "base58btc")
    assert get(f"/foo/blocks/{base58}").content == chain.blocks[-1].raw


@pytest.mark.parametrize("text", ["xyz", "f1620", "f1620" + "0" * 62, "%20"])
def test_what_is_no_hash_is_refused_as_text(get, text):
    answer = get(f"/foo/data/{text}")
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")


def test_an_unknown_hash_is_not_found_as_json(get):
    for folder in ("blocks", "data", "checkpoints"):
        answer = get(f"/foo/{folder}/{Multihash.of(b'nobody has this')}")
        assert answer.status_code == 404
        assert answer.json()["message"]


def test_head_requests_answer_like_get_without_a_body(single, chain):
    with single.http() as client:
        for path, content in [*_paths(chain), ("/foo/refs/head", b"x" * 69)]:
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-length"] == str(len(content))
        missing = client.head(f"/foo/data/{Multihash.of(b'nobody has this')}")
        assert (missing.status_code, missing.content) == (404, b"")


def test_head_works_wherever_get_does(single, chain):
    with single.http() as client:
        for path in ("/foo", "/foo/tail", "/foo/metadata", "/info", f"/datasets/{chain.id}"):
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-length"] == str(len(client.get(path).content))
        assert client.head("/nobody/tail").status_code == 404


def test_a_part_of_an_object_can_be_read(get, chain):
    path, content = next(_paths(chain))
    for header, start, end in (("bytes=2-5", 2, 6), ("bytes=7-", 7, None), ("bytes=-3", -3, None)):
        answer = get(path, headers={"range": header})
        assert answer.status_code == 206
        assert answer.content == content[start:end]
        assert answer.headers["content-range"].endswith(f"/{len(content)}")
    behind = get(path, headers={"range": f"bytes={len(content)}-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(content)}")
    assert get(path, headers={"range": "rows=0-1"}).content == content


def test_an_object_that_is_known_is_not_sent_again(get, chain):
    answer = get(f"/foo/blocks/{chain.head}", headers={"if-none-match": f'"{chain.head}"'})
    assert (answer.status_code, answer.content) == (304, b"")


def test_conditions_name_the_object_by_its_hash(get, chain):
    path, tag = f"/foo/blocks/{chain.head}", f'"{chain.head}"'
    for header, value, status in (
        ("if-none-match", f'"x", W/{tag}', 304),
        ("if-none-match", "*", 304),
        ("if-none-match", '"x"', 200),
        ("if-match", tag, 200),
        ("if-match", "*", 200),
        ("if-match", '"x"', 412),
        ("if-match", f"W/{tag}", 412),
    ):
        assert get(path, headers={header: value}).status_code == status


def test_a_range_of_something_else_gives_the_whole(get, chain):
    path, content = next(_paths(chain))
    for known, status in ((f'"{chain.head}"', 206), ('"x"', 200), (f'W/"{chain.head}"', 200)):
        answer = get(path, headers={"range": "bytes=0-3", "if-range": known})
        assert answer.status_code == status
        assert answer.content == content[: 4 if status == 206 else None]


def test_several_parts_of_an_object_come_in_one_answer(single, get, chain):
    path, content = list(_paths(chain))[-1]
    answer = get(path, headers={"range": "bytes=10-19, 0-1,-5"})
    assert answer.status_code == 206
    assert len(answer.content) == int(answer.headers["content-length"])
    parts = parts_of(answer)
    size = len(content)
    assert [place for place, _ in parts] == [
        f"bytes 10-19/{size}",
        f"bytes 0-1/{size}",
        f"bytes {size - 5}-{size - 1}/{size}",
    ]
    assert [body for _, body in parts] == [content[10:20], content[:2], content[-5:]]


def test_overlapping_parts_are_sent_once(get, chain):
    path, content = next(_paths(chain))
    answer = get(path, headers={"range": "bytes=5-9,0-6,8-8"})
    assert answer.headers["content-range"] == f"bytes 0-9/{len(content)}"
    assert answer.content == content[:10]


def test_too_many_parts_give_the_whole(get, chain):
    path, content = next(_paths(chain))
    many = ",".join(f"{at}-{at}" for at in range(0, 400, 2))
    assert get(path, headers={"range": f"bytes={many}"}).content == content


def test_a_head_request_has_the_headers_of_the_whole(single, chain):
    with single.http() as client:
        for path, content in _paths(chain):
            answer = client.head(path, headers={"range": "bytes=0-3"})
            whole = client.get(path)
            assert (answer.status_code, answer.content) == (200, b"")
            drop = {"date", "x-trace-id"}
            assert {k: v for k, v in answer.headers.items() if k not in drop} == {
                k: v for k, v in whole.headers.items() if k not in drop
            }
            assert answer.headers["content-length"] == str(len(content))


def test_addresses_that_are_nothing_say_not_found(get):
    answer = get("/a/b/c/d/e/f")
    assert (answer.status_code, answer.text) == (404, "Not Found")


def test_a_segment_that_is_no_name_is_a_bad_request_with_an_empty_body(get):
    for path in ("/_foo/refs/head", "/foo-/refs/head", "/f%2eo./refs/head"):
        answer = get(path)
        assert (answer.status_code, answer.content) == (400, b"")


def test_a_missing_dataset_is_not_found_with_an_empty_body(get):
    for path in ("/nobody/refs/head", f"/nobody/data/{Multihash.of(b'')}", "/non.existing/pull"):
        answer = get(path)
        assert (answer.status_code, answer.content) == (404, b"")


def test_an_upload_is_stored_under_its_hash_and_may_be_repeated(single, chain):
    content = b"slice " * 1_000_000
    path = f"/foo/data/{Multihash.of(content)}"
    with single.http(single.token()) as client:
        for _ in range(2):
            answer = client.put(path, content=content)
            assert (answer.status_code, answer.content) == (200, b"")
        assert client.get(path).content == content


def test_an_upload_that_does_not_hash_to_its_name_is_refused_and_never_seen(single, chain):
    path = f"/foo/data/{Multihash.of(b'announced')}"
    with single.http(single.token()) as client:
        answer = client.put(path, content=b"something else")
        assert answer.status_code == 400
        assert answer.json()["expected"] == str(Multihash.of(b"announced"))
        assert client.get(path).status_code == 404


def test_an_upload_without_a_length_is_refused(single, chain):
    path = f"/foo/checkpoints/{Multihash.of(b'chunks')}"
    with single.http(single.token()) as client:
        answer = client.put(path, content=iter([b"chu", b"nks"]))
    assert answer.status_code == 400
    assert "Content-Length" in answer.json()["message"]


def test_an_upload_that_breaks_off_leaves_nothing(single, chain):
    content = b"0123456789" * 10
    path = f"/foo/data/{Multihash.of(content)}"
    host, port = single.url.removeprefix("http://").split(":")
    head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n"
    with socket.create_connection((host, int(port))) as raw:
        bearer = f"Authorization: Bearer {single.token()}\r\n\r\n"
        raw.sendall((head + bearer).encode() + content[:50])
    with single.http() as client:
        assert client.get(path).status_code == 404


def test_blocks_and_references_cannot_be_uploaded(single, chain):
    with single.http(single.token()) as client:
        assert client.put(f"/foo/blocks/{chain.head}", content=b"x").status_code == 405
        assert client.put("/foo/refs/head", content=b"x").status_code == 405


def test_uploads_need_the_right_to_write(single, multi, chain):
    path = f"data/{Multihash.of(b'x')}"
    single_read = single.token("kamu", Scope.READ)
    multi.keep(ten_rows(), "alice/private", Visibility.PRIVATE)
    multi.keep(ten_rows(), "alice/public")
    stranger = multi.token("bob")
    for service, token, address, status in (
        (single, None, "foo", 403),
        (single, single_read, "foo", 403),
        (multi, stranger, "alice/public", 403),
        (multi, stranger, "alice/private", 404),
        (multi, None, "alice/private", 404),
        (multi, multi.token("alice"), "alice/private", 200),
    ):
        with service.http(token) as client:
            answer = client.put(f"/{address}/{path}", content=b"x")
        assert answer.status_code == status
        assert answer.content == b""


def test_an_object_above_the_limit_is_refused(tmp_path):
    with serving(tmp_path, max_object_bytes=10) as service:
        service.keep(seeded())
        with service.http(service.token()) as client:
            path = f"/foo/data/{Multihash.of(b'x' * 11)}"
            answer = client.put(path, content=b"x" * 11)
    assert answer.status_code == 413
    assert answer.json()["limit"] == 10


def test_in_a_multi_tenant_node_the_account_is_part_of_the_address(multi):
    chain = seeded()
    multi.keep(chain, "Alice/mine")
    with multi.http() as client:
        assert client.get("/alice/MINE/refs/head").text == str(chain.head)
        assert client.get("/mine/refs/head").status_code == 404
        assert client.get("/bob/mine/refs/head").content == b""
