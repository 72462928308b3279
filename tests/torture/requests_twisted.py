"""Twists: ways to spoil a whole request, whatever its route, beyond values of the right form.

A twist is a function of randomness and a request that returns what is sent in its place: other
header lines, another address, a packed body, another framing, other messages of a WebSocket. See
`TWISTS`; framings, which make bytes of a body, are in `FRAMINGS`. Nothing here sends anything.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from urllib.parse import quote

import pyarrow as pa
from requests_made import Asked

BOMB_BYTES = 64_000_000
"""What a bomb unpacks to."""
DROPS = 20_000
"""Chunks of one byte."""
HEADER_CHARS = 60_000
ODD_TEXTS = (
    "\ufeff",
    "\u202e",
    "a\u0301" * 500,
    "\u0130\u0131\u1e9e" * 300,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 300,
    "\x00",
    "\ufdfa" * 1_000,
    "\u00df" * 1_000,
    "\u3000\u00a0\u2028\u2029" * 200,
)
"""Marks, texts that change their length when they are folded or composed, signs of no width."""
ODD_BYTES = ("%ff", "%c0%af", "%ed%a0%80", "%00", "%", "%zz", "%u0041", "%e2%80%ae")
"""In addresses: bytes that are no UTF-8, a surrogate, and percents that begin nothing."""
Twist = Callable[[random.Random, Asked], Asked]


def _with(asked: Asked, *lines: tuple[str, str], **headers: str) -> Asked:
    """The request with further header lines, and with headers in place of its own."""
    told = {name.replace("_", "-"): text for name, text in headers.items()}
    return replace(asked, headers=asked.headers | told, lines=(*asked.lines, *lines))


def _query(asked: Asked, text: str) -> Asked:
    mark = "&" if "?" in asked.target else "?"
    return replace(asked, target=asked.target + mark + text)


def header_lines(rng: random.Random, asked: Asked) -> Asked:
    """Very many lines, a very long one, a name twice, and values of no use."""
    lines: list[tuple[str, str]] = rng.choice(
        (
            [(f"x-{n}", "1") for n in range(rng.choice((100, 5_000)))],
            [("x-a", rng.choice('a,;"=') * rng.choice((HEADER_CHARS, 10 * HEADER_CHARS)))],
            [("a" * HEADER_CHARS, "1")],
            [("host", "a"), ("host", "b")],
            [("authorization", "Bearer " + "a." * 20_000)],
            [("authorization", "Basic " + "=" * 20_000)],
            [("authorization", "AWS4-HMAC-SHA256 " + "Credential=a/," * 3_000)],
            [("x-forwarded-for", "1.2.3.4, " * 5_000), ("forwarded", "for=a;" * 5_000)],
            [("traceparent", "00-" + "f" * 20_000), ("tracestate", "a=1," * 10_000)],
            [("content-type", "text/csv" + "; a=b" * 10_000)],
            [("content-type", "multipart/form-data; boundary=" + "-" * 20_000)],
            [("content-disposition", "attachment; filename*=utf-8''" + "%ff" * 10_000)],
            [("idempotency-key", "k" * 50_000), ("origin", "http://" + "a." * 10_000)],
            [("x-amz-date", "9" * 10_000), ("x-amz-content-sha256", "f" * 10_000)],
            [("upload-offset", "9" * 5_000), ("upload-length", "-1")],
        )
    )
    return _with(asked, *lines)


def cookies(rng: random.Random, asked: Asked) -> Asked:
    """Thousands of crumbs, in one line or in many, and sessions that are none."""
    crumbs = "; ".join(f"a{n % 7}={n}" for n in range(6_000))
    lines: list[tuple[str, str]] = rng.choice(
        (
            [("cookie", crumbs)],
            [("cookie", f"a={n}") for n in range(100)],
            [("cookie", ";" * HEADER_CHARS)],
            [("cookie", "=" * HEADER_CHARS)],
            [("cookie", 'a="' + "\\" * HEADER_CHARS)],
            [("cookie", "odf_session=" + "a" * 50_000)],
            [("cookie", "; ".join(["odf_session=a"] * 3_000))],
        )
    )
    return _with(asked, *lines)


def query_strings(rng: random.Random, asked: Asked) -> Asked:
    """Very many pairs, of the same name, of none, and of bytes that are no text."""
    odd = rng.choice(ODD_BYTES)
    text = rng.choice(
        (
            "&" * HEADER_CHARS,
            "=" * HEADER_CHARS,
            ";" * HEADER_CHARS,
            "&".join(["limit=1"] * 7_000),
            "&".join(f"{n}" for n in range(9_000)),
            "&".join([f"a{n}[b][c]=1" for n in range(4_000)]),
            f"query={odd * 5_000}",
            "+" * HEADER_CHARS,
            "limit=" + "9" * 5_000,
            "a=" + quote(rng.choice(ODD_TEXTS)) * 3,
        )
    )
    return _query(asked, text[:HEADER_CHARS])


def paths(rng: random.Random, asked: Asked) -> Asked:
    """Addresses of too many parts, with odd bytes, of other forms."""
    path, _, rest = asked.target.partition("?")
    odd = rng.choice(ODD_BYTES)
    made = rng.choice(
        (
            "/" * 30_000,
            path + "/." * 10_000,
            path + "/.." * 10_000,
            "/" + "a/" * 20_000,
            path + odd,
            path + odd * 5_000,
            "/bob/" + quote(rng.choice(ODD_TEXTS)),
            "/bob%2frows/tail",
            "/bob\\rows",
            "http://other.example" + path,
            "*",
            path + ";a=b" * 5_000,
            path + "#" + "a" * 5_000,
            "//" + path,
        )
    )
    return replace(asked, target=f"{made}?{rest}"[:HEADER_CHARS] if rest else made)


def ranges(rng: random.Random, asked: Asked) -> Asked:
    """Ranges by the thousand: one byte each, overlapping, from the end, without an end."""
    count = rng.choice((90, 3_000))
    text = rng.choice(
        (
            ",".join(f"{n}-{n}" for n in range(count)),
            ",".join(f"{2 * n}-{2 * n}" for n in range(count)),
            ",".join(["0-"] * count),
            ",".join([f"-{n}" for n in range(1, count)]),
            ",".join(f"{n}-" for n in range(count, 0, -1)),
            f"{'9' * 4_000}-{'9' * 4_001}",
            "," * 9_000,
            "-" * 9_000,
        )
    )
    return _with(asked, Range=f"bytes={text}")


def conditions(rng: random.Random, asked: Asked) -> Asked:
    """Tags by the thousand, open quotes, dates that are none."""
    name = rng.choice(("if-none-match", "if-match", "if-range", "if-modified-since"))
    text = rng.choice(
        (
            ", ".join(f'"{n}"' for n in range(8_000)),
            ", ".join(f'W/"{n}"' for n in range(6_000)),
            '"' * HEADER_CHARS,
            'W/"' + "a" * HEADER_CHARS,
            "," * HEADER_CHARS,
            "*, " * 10_000,
            "Thu, 01 Jan 99999 00:00:00 GMT",
            "-" * 20_000,
            "9" * 20_000,
        )
    )
    return _with(asked, (name, text[:HEADER_CHARS]))


def lists_of_types(rng: random.Random, asked: Asked) -> Asked:
    """`Accept` and its like, of thousands of members, weights and parameters."""
    name = rng.choice(
        ("Accept", "Accept-Encoding", "Accept-Language", "Prefer", "Content-Encoding")
    )
    text = rng.choice(
        (
            ", ".join(f"text/t{n};q=0.{n % 1000:03}" for n in range(2_500)),
            ", ".join(["text/html"] * 5_000),
            "text/html" + ";a=b" * 12_000,
            "*/*;q=" + "9" * 20_000,
            ", ".join(["gzip;q=0", "*;q=1"] * 3_000),
            "wait=" + "9" * 5_000,
            ", ".join(["respond-async", "wait=1"] * 2_000),
            "a/b, " * 10_000,
            'a/b;c="' + "\\" * 20_000,
            "en-" * 15_000,
        )
    )
    return _with(asked, **{name.replace("-", "_"): text[:HEADER_CHARS]})


@cache
def bombs() -> dict[str, tuple[bytes, ...]]:
    """Short bodies that unpack to `BOMB_BYTES`, to nothing very often, or not to the end."""
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, wbits=31)
    times = BOMB_BYTES >> 20
    gzipped = b"".join(packer.compress(zeros) for _ in range(times)) + packer.flush()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(times):
            stream.write(zeros)
    zstd = sink.getvalue().to_pybytes()
    empty, frame = gzip.compress(b""), pa.compress(b"", codec="zstd", asbytes=True)
    skipped = b"\x50\x2a\x4d\x18\x00\x00\x00\x00"  # a frame of zstd that holds nothing
    window = b"\x28\xb5\x2f\xfd\x00\xff" + bytes(20)  # one that wants a window of terabytes
    return {
        "gzip": (gzipped, gzip.compress(gzipped), empty * 20_000, gzipped[:-20], b"\x1f\x8b"),
        "deflate": (zlib.compress(gzipped), zlib.compress(bytes(BOMB_BYTES // 10)), b"\x78"),
        "zstd": (zstd, frame * 20_000, skipped * 50_000, window, zstd[:-20]),
    }


def packed(rng: random.Random, asked: Asked) -> Asked:
    """A bomb, or a body that is packed again and again, or not as it says."""
    coding = rng.choice(list(bombs()))
    body = rng.choice(bombs()[coding])
    said = rng.choice((coding, coding, coding, coding.upper(), f"{coding}, {coding}", "br", "gzip"))
    return replace(_with(asked, Content_Encoding=said), body=body)


def framed(rng: random.Random, asked: Asked) -> Asked:
    """A body in chunks of a byte, with long extensions, with trailers, or of a wrong length."""
    body = (asked.body or b'{"city": "A", "n": 1}\n') * 3
    return replace(asked, body=body[:DROPS], framing=rng.choice(list(FRAMINGS)))


def odd_json(rng: random.Random, asked: Asked) -> Asked:
    """JSON that parsers read differently: deep, numbers of very many digits, halves of pairs."""
    depth = rng.choice((500, 100_000))
    text = rng.choice(
        (
            b"[" * depth,
            b'{"query":' * depth + b"1",
            b'{"query": ' + b"[" * depth + b"]" * depth + b"}",
            b'{"limit": ' + b"9" * 200_000 + b"}",
            b'{"limit": 1e' + b"9" * 50_000 + b"}",
            b'{"limit": 0.' + b"0" * 200_000 + b"1}",
            b'{"query": "\\ud800"}',
            b'{"query": "' + b"\\ud83d" * 30_000 + b'"}',
            b'{"query": "\\u0000"}',
            b'{"query": "' + b"\\" * 100_001,
            b"\xef\xbb\xbf{}",
            '{"query": "select 1"}'.encode("utf-16"),
            b'{"query": NaN}',
            b'{"query": "\xff\xfe"}',
            json.dumps({each: each for each in ODD_TEXTS}).encode(),
            json.dumps({"query": f'select 1 as "{rng.choice(ODD_TEXTS)}"'}).encode(),
            b'{"__proto__": {}, "": 1, "": 2}',
            b" " * 500_000 + b"{}",
        )
    )
    return replace(asked, body=text)


def forms(rng: random.Random, asked: Asked) -> Asked:
    """Forms of parts: thousands, without names, with long headers, without an end."""
    head = b'--x\r\ncontent-disposition: form-data; name="file"'
    part = head + b"\r\n\r\n1\r\n"
    body = rng.choice(
        (
            part * 5_000 + b"--x--",
            head + b"; filename*=utf-8''" + b"%ff" * 20_000 + b"\r\n\r\n1\r\n--x--",
            head + b"".join(b"; a%d=b" % n for n in range(10_000)) + b"\r\n\r\n1\r\n--x--",
            b"--x\r\n" + b"x-a: b\r\n" * 20_000 + b"\r\n1\r\n--x--",
            b"--x\r\n\r\n1\r\n--x--",
            b"--x" * 50_000,
            b"\r\n--" * 100_000,
            b"\r\n--x" + b"-" * 200_000,
            head + b"\r\n\r\n" + b"\r\n-" * 100_000 + b"\r\n--x--",
            head + b"\r\ncontent-type: multipart/mixed; boundary=x\r\n\r\n" + part * 1_000,
            head + b"\r\ncontent-transfer-encoding: base64\r\n\r\n" + b"=" * 100_000,
            b"preamble " * 20_000,
        )
    )
    boundary = rng.choice(("x", "x", "x", '"x', "x" * 200, ""))
    return replace(
        _with(asked, Content_Type=f"multipart/form-data; boundary={boundary}"), body=body
    )


def methods(rng: random.Random, asked: Asked) -> Asked:
    """Methods that no route has."""
    names = (
        "PROPFIND",
        "CONNECT",
        "HEAD",
        "OPTIONS",
        "TRACE",
        "LOCK",
        "SEARCH",
        "get",
        "A" * 5_000,
    )
    return replace(asked, method=rng.choice(names))


def again(rng: random.Random, asked: Asked) -> Asked:
    """The same request many times on one connection, without a wait for any answer."""
    return replace(asked, body=b"", framing="length", in_a_row=rng.choice((20, 1_000)))


def opened(opcode: int, content: bytes, *, ends: bool = True) -> bytes:
    """A frame of a WebSocket, as clients send them."""
    length = len(content)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 1 << 16:
        size = b"\xfe" + length.to_bytes(2, "big")
    else:
        size = b"\xff" + length.to_bytes(8, "big")
    return bytes([opcode | 0x80 * ends]) + size + bytes(4) + content


def _said(told: object) -> bytes:
    return opened(1, json.dumps(told).encode())


FIRST = _said({"currentHead": None, "force": False})
MESSAGES: dict[str, bytes] = {
    "deep": opened(1, b"[" * 60_000),
    "objects in objects": opened(1, b'{"currentHead":' * 10_000 + b"1" + b"}" * 10_000),
    "no hash": _said({"currentHead": "f1620" * 10_000}),
    "not a hash": _said({"currentHead": {"a": [None] * 3_000}}),
    "unknown fields": _said({f"k{n}": n for n in range(5_000)}),
    "numbers": opened(1, b'{"currentHead": ' + b"9" * 50_000 + b"}"),
    "no text": opened(1, b"\xff\xfe" * 20_000),
    "halves": opened(1, b'{"currentHead": "\\ud800"}'),
    "bytes": opened(2, bytes(50_000)),
    "pings": opened(9, b"x" * 125) * 5_000,
    "pongs": opened(10, b"") * 5_000,
    "long ping": opened(9, bytes(60_000)),
    "closing": opened(8, b"\x00\x00" + b"\xff" * 100),
    "reserved": opened(0x7B, b"{}"),
    "no mask": b"\x81\x02{}",
    "longer than any": bytes([0x81, 0xFF]) + (2**63 - 1).to_bytes(8, "big") + bytes(4) + b"{" * 9,
    "empty": opened(1, b"") * 5_000,
    "pieces": opened(1, b"{", ends=False) + opened(0, b" ", ends=False) * 5_000,
    "pieces of another": opened(1, b"{", ends=False) + opened(1, b"}") * 1_000,
    "first again": FIRST * 500,
    "no order": FIRST + _said({}) * 500,
    "archive": FIRST
    + _said({"blocks": {"objectsCount": 1, "payload": [31, 139, 8] * 10_000, "encoding": "tar"}}),
    "head of another": _said(
        {
            "currentHead": None,
            "sizeEstimate": {"numBlocks": 2**63, "numObjects": 2**63, "bytesInRawObjects": -1},
            "force": True,
            "visibilityForCreatedDataset": "public",
        }
    ),
}
"""Bytes that follow an upgrade: messages of transfers that are none, and frames that are none."""


def messages(rng: random.Random, asked: Asked) -> Asked:
    """A WebSocket of transfers, and what is no message of it."""
    name = rng.choice(("bob/rows", "bob/wide", "alice/rows", "bob/none"))
    way = rng.choice(("pull", "push"))
    lines = rng.choice(
        (
            (),
            (("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),),
            (("sec-websocket-extensions", "permessage-deflate, " * 2_000),),
            (("sec-websocket-protocol", "a, " * 10_000),),
            (("x-odf-node-payload", "base64"), ("x-odf-node-objects", "inline")),
        )
    )
    return replace(
        asked,
        method="GET",
        target=f"/{name}/{way}",
        body=b"",
        lines=lines,
        upgrades=True,
        frames=rng.choice(list(MESSAGES.values())),
    )


def none(rng: random.Random, asked: Asked) -> Asked:
    """The request as its shape made it."""
    return asked


TWISTS: dict[str, Twist] = {
    each.__name__.replace("_", " "): each
    for each in (
        none,
        header_lines,
        cookies,
        query_strings,
        paths,
        ranges,
        conditions,
        lists_of_types,
        packed,
        framed,
        odd_json,
        forms,
        methods,
        again,
        messages,
    )
}
OF_BODIES = {"packed", "framed", "odd json", "forms"}
"""Twists of a body, most of those of requests that have one."""


def twisted(rng: random.Random, asked: Asked) -> Asked:
    """Some requests as they are, the others with a twist that fits them."""
    of_body = bool(asked.body) and rng.random() < 0.6
    fits = [each for each in TWISTS if (each in OF_BODIES) is of_body]
    name = "none" if rng.random() < 0.3 else rng.choice(fits)
    return replace(TWISTS[name](rng, asked), twist=name)


def _chunks(body: bytes, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    pieces = b"".join(b"1" + extension + b"\r\n%c\r\n" % each for each in body)
    return pieces + b"0\r\n" + trailers + b"\r\n"


CHUNKED = (("Transfer-Encoding", "chunked"),)
Framing = Callable[[bytes], tuple[tuple[tuple[str, str], ...], bytes]]
FRAMINGS: dict[str, Framing] = {
    "length": lambda body: (((("Content-Length", str(len(body))),) if body else ()), body),
    "drops": lambda body: (CHUNKED, _chunks(body)),
    "extensions": lambda body: (CHUNKED, _chunks(body[:200], b";a=" + b"b" * 3_000)),
    "endless extension": lambda body: (CHUNKED, b"1;" + b"a" * 500_000),
    "trailers": lambda body: (CHUNKED, _chunks(body[:100], trailers=b"x-a: b\r\n" * 5_000)),
    "no size": lambda body: (CHUNKED, b"zz\r\n" + body),
    "long size": lambda body: (CHUNKED, b"f" * 5_000 + b"\r\n" + body),
    "zeros": lambda body: (CHUNKED, b"0" * 60_000 + b"1\r\na\r\n0\r\n\r\n"),
    "no end": lambda body: (CHUNKED, _chunks(body)[:-5]),
    "both": lambda body: ((("Content-Length", "3"), *CHUNKED), _chunks(body[:100])),
    "chunked twice": lambda body: ((*CHUNKED, *CHUNKED), _chunks(body[:100])),
    "two lengths": lambda body: ((("Content-Length", "3"), ("Content-Length", "4")), body[:4]),
    "too long": lambda body: ((("Content-Length", str(len(body) + 1000)),), body),
    "too short": lambda body: ((("Content-Length", "2"),), body),
    "negative": lambda body: ((("Content-Length", "-1"),), body),
    "huge": lambda body: ((("Content-Length", "9" * 19),), body),
    "expects": lambda body: (
        (("Expect", "100-continue"), ("Content-Length", str(len(body)))),
        body,
    ),
}
"""Header lines and bytes of a body, by name."""
