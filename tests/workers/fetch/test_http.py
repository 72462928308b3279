"""Web sources: what reaches which server, and where redirects may not lead."""

from __future__ import annotations

import gzip
import shutil
import ssl
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing
from web_server import Answer, web_server

from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import (
    EventTimeSourceFromPath,
    FetchStepEthereumLogs,
    FetchStepMqtt,
    FetchStepUrl,
    MqttTopicSubscription,
    RequestHeader,
    SourceCachingForever,
)
from odf_storage.runtime.networks import resolved
from odf_workers.fetch import values
from odf_workers.fetch.run import fetch

Ask = Callable[..., values.FetchRequest]
BODY = Answer(200, {}, b"rows")


def url(port: int, path: str = "/", host: str = "srv.test") -> str:
    return f"http://{host}:{port}{path}"


def resolver(**hosts: str) -> Callable[[str, int], list[str]]:
    return lambda host, port: [hosts[host.split(".")[0]]]


def test_addresses_inside_are_refused_without_a_connection(asked: Ask) -> None:
    with web_server(lambda _: BODY) as server:
        for host in ("127.0.0.1", "[::1]", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "[::]"):
            request = asked(networks=(), resolve=resolved)
            with refusing("SourceRefused", match="public network"):
                fetch(FetchStepUrl(url=url(server.port, host=host)), request)
        assert server.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.168.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "fd00::1",
        "fe80::1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::ffff:169.254.169.254",
        "ff02::1",
    ],
)
def test_internal_ranges_are_refused_in_every_spelling(address: str, asked: Ask) -> None:
    request = asked(networks=(), resolve=lambda host, port: ["93.184.216.34", address])
    with refusing("SourceRefused"):
        fetch(FetchStepUrl(url="http://srv.test/"), request)


def test_a_redirect_to_an_internal_address_is_refused(asked: Ask) -> None:
    with web_server(lambda _: Answer(302, {"Location": "http://inside.test/secret"})) as server:
        request = asked(resolve=resolver(srv="127.0.0.1", inside="10.0.0.1"))
        with refusing("SourceRefused", match=r"inside\.test"):
            fetch(FetchStepUrl(url=url(server.port)), request)


def test_a_redirect_to_another_scheme_is_refused(asked: Ask, tmp_path: Path) -> None:
    for target in (f"file://{tmp_path}/x", "ftp://srv.test/x", "gopher://srv.test/"):
        with (
            web_server(lambda _, to=target: Answer(301, {"Location": to})) as server,
            refusing("MalformedSource"),
        ):
            fetch(FetchStepUrl(url=url(server.port)), asked())


def test_ten_redirects_are_followed_and_no_more(asked: Ask) -> None:
    def answer(request: Any) -> Answer:
        left = int(request.path.strip("/"))
        return BODY if left == 0 else Answer(302, {"Location": f"/{left - 1}"})

    with web_server(answer) as server:
        found = fetch(FetchStepUrl(url=url(server.port, "/10")), asked())
        assert found is not None
        assert found.path.read_bytes() == b"rows"
        with refusing("SourceUnreachable", match="redirects"):
            fetch(FetchStepUrl(url=url(server.port, "/11")), asked())


def test_a_redirect_to_nowhere_is_told_as_one(asked: Ask) -> None:
    with (
        web_server(lambda _: Answer(302, {})) as server,
        refusing("SourceUnreachable", match="302, a redirect, and does not say where to"),
    ):
        fetch(FetchStepUrl(url=url(server.port)), asked())


def test_an_answer_packed_by_gzip_is_unpacked(asked: Ask) -> None:
    for encoding in ("gzip", "x-gzip", "identity, GZIP"):
        answer = Answer(200, {"Content-Encoding": encoding}, gzip.compress(b"rows"))
        with web_server(lambda _, answer=answer: answer) as server:
            found = fetch(FetchStepUrl(url=url(server.port)), asked())
        assert found is not None
        assert found.path.read_bytes() == b"rows"


def test_a_packed_answer_that_is_damaged_or_too_large_is_refused(asked: Ask) -> None:
    body = gzip.compress(bytes(1 << 20))
    for sent, error in ((body, "FetchedTooLarge"), (body[:-9], "MalformedArchive")):
        answer = Answer(200, {"Content-Encoding": "gzip"}, sent)
        request = asked(max_bytes=(1 << 20) - (sent is body))
        with web_server(lambda _, answer=answer: answer) as server, refusing(error):
            fetch(FetchStepUrl(url=url(server.port)), request)


def test_an_answer_packed_several_times_or_in_another_way_is_not_read(asked: Ask) -> None:
    bomb = gzip.compress(gzip.compress(bytes(64 << 20)))
    packed = (("gzip, gzip", bomb), ("deflate", zlib.compress(b"rows")), ("br, gzip", bomb))
    for encodings, body in packed:
        answer = Answer(200, {"Content-Encoding": encodings}, body)
        with web_server(lambda _, answer=answer: answer) as server:
            tracemalloc.start()
            try:
                with refusing("SourceUnreachable", match=encodings):
                    fetch(FetchStepUrl(url=url(server.port)), asked())
                assert tracemalloc.get_traced_memory()[1] < 16 << 20
            finally:
                tracemalloc.stop()


def test_headers_and_logins_of_a_source_stay_with_its_origin(asked: Ask) -> None:
    with web_server(lambda _: BODY) as other:
        away = Answer(302, {"Location": url(other.port, host="other.test")})
        with web_server(lambda r: Answer(302, {"Location": "/b"}) if r.path == "/a" else away) as a:
            step = FetchStepUrl(
                url=f"http://me:pass%20word@srv.test:{a.port}/a",
                headers=(RequestHeader(name="X-Api-Key", value="secret"),),
            )
            fetch(step, asked(state=values.state(values.ETAG, '"1"')))
            assert a.asked[0].headers["Authorization"] == "Basic bWU6cGFzcyB3b3Jk"
            assert [r.headers.get("X-Api-Key") for r in a.asked] == ["secret", "secret"]
        assert "X-Api-Key" not in other.asked[0].headers
        assert "Authorization" not in other.asked[0].headers
        assert other.asked[0].headers["If-None-Match"] == '"1"'
        assert other.asked[0].headers["Host"] == f"other.test:{other.port}"


def test_the_connection_goes_to_the_address_that_was_checked(asked: Ask) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    with web_server(lambda _: BODY) as server:
        request = asked(resolve=lambda host, port: next(answers))
        assert fetch(FetchStepUrl(url=url(server.port)), request) is not None
        assert server.asked[0].headers["Host"] == f"srv.test:{server.port}"


def test_the_next_address_is_tried_when_one_takes_no_connection(asked: Ask) -> None:
    with web_server(lambda _: BODY) as server:
        request = asked(resolve=lambda host, port: ["127.0.0.9", "127.0.0.1"])
        assert fetch(FetchStepUrl(url=url(server.port)), request) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "inside"), ("Content-Length", "5"), ("X", "a\r\nHost: b"), ("X", "ä"), ("a b", "c")],
)
def test_headers_that_would_change_the_request_are_refused(
    name: str, value: str, asked: Ask
) -> None:
    step = FetchStepUrl(url="http://srv.test:1/", headers=(RequestHeader(name=name, value=value),))
    with refusing("MalformedSource", "SourceUnreachable"):
        fetch(step, asked())


@pytest.mark.parametrize("status", [204, 206, 304, 401, 500])
def test_any_other_status_is_no_success(status: int, asked: Ask) -> None:
    with (
        web_server(lambda _: Answer(status)) as server,
        refusing("SourceUnreachable", match=str(status)),
    ):
        fetch(FetchStepUrl(url=url(server.port)), asked())


def test_more_bytes_than_taken_are_refused(asked: Ask) -> None:
    with (
        web_server(lambda _: Answer(200, {}, bytes(1_000))) as server,
        refusing("FetchedTooLarge"),
    ):
        fetch(FetchStepUrl(url=url(server.port)), asked(max_bytes=999))


def test_a_body_that_is_cut_short_is_no_success(asked: Ask) -> None:
    with (
        web_server(lambda _: Answer(200, {"Content-Length": "100"}, b"rows")) as server,
        refusing("SourceUnreachable"),
    ):
        fetch(FetchStepUrl(url=url(server.port)), asked(idle_s=0.5))


def test_a_state_of_an_unknown_kind_asks_for_everything(asked: Ask) -> None:
    with web_server(lambda _: BODY) as server:
        for state in (values.state("odf/other", "x"), values.state(values.LAST_MODIFIED, "never")):
            assert fetch(FetchStepUrl(url=url(server.port)), asked(state=state)) is not None
        assert not any(name.startswith("If-") for r in server.asked for name in r.headers)


def test_a_source_that_is_cached_forever_is_read_once(asked: Ask) -> None:
    with web_server(lambda _: BODY) as server:
        step = FetchStepUrl(url=url(server.port), cache=SourceCachingForever())
        assert fetch(step, asked()) is not None
        assert fetch(step, asked(state=values.state("any", "thing"))) is None
        assert len(server.asked) == 1


def test_secrets_of_an_address_are_not_told(asked: Ask) -> None:
    step = FetchStepUrl(url="http://srv.test:1/x?token=${{ env.TOKEN }}")
    with refusing("SourceUnreachable") as caught:
        fetch(step, asked(variables={"TOKEN": "s3cret"}))
    assert "s3cret" not in str(caught.value) + str(caught.value.facts)


@pytest.mark.parametrize(
    "address",
    [
        "http://user:${{ env.TOKEN }}@srv.test/x",
        "http://srv.test:${{ env.TOKEN }}/x",
        "https://${{ env.TOKEN }}.test/x",
        "ftp://${{ env.TOKEN }}/x",
        "file:///outside/${{ env.TOKEN }}",
        "${{ env.TOKEN }}",
    ],
)
def test_a_template_may_stand_anywhere_and_its_value_is_in_no_error(
    asked: Ask, address: str
) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    request = asked(variables={"TOKEN": "S3cret/with-a-slash"}, resolve=unknown)
    with pytest.raises(NodeError) as caught:
        fetch(FetchStepUrl(url=address), request)
    assert "s3cret" not in (str(caught.value) + str(caught.value.facts)).lower()


def test_what_a_source_writes_itself_is_told_beside_its_templates(asked: Ask) -> None:
    step = FetchStepUrl(url="http://srv.test/${{ env.TOKEN }}")
    with refusing("SourceRefused", match=r"srv\.test") as caught:
        fetch(step, asked(variables={"TOKEN": "s3cret"}, networks=()))
    assert caught.value.facts["host"] == "srv.test"


def test_kinds_and_schemes_that_are_not_built_are_refused_by_name(asked: Ask) -> None:
    mqtt = FetchStepMqtt(host="h", port=1, topics=(MqttTopicSubscription(path="t"),))
    for step, name in (
        (mqtt, "Mqtt"),
        (FetchStepEthereumLogs(), "EthereumLogs"),
        (FetchStepUrl(url="s3://bucket/x"), "s3"),
        (FetchStepUrl(url="nothing"), "scheme"),
    ):
        with refusing("Unsupported", match=name):
            fetch(step, asked())
    step = FetchStepUrl(url="http://x.test/", event_time=EventTimeSourceFromPath(pattern="(.*)"))
    with pytest.raises(values.EventTimeNotFound):
        fetch(step, asked())


def test_certificates_are_checked_against_the_name_of_the_source(
    asked: Ask, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the path")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=srv.test", "-addext", "subjectAltName=DNS:srv.test"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with web_server(lambda _: BODY) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)

        def trusting() -> ssl.SSLContext:
            return ssl.create_default_context(cafile=str(cert))

        good = FetchStepUrl(url=f"https://srv.test:{server.port}/")
        assert fetch(good, asked(tls=trusting)) is not None
        for step, tls in (
            (FetchStepUrl(url=f"https://other.test:{server.port}/"), trusting),
            (good, ssl.create_default_context),
        ):
            with refusing("SourceUnreachable"):
                fetch(step, asked(tls=tls))
