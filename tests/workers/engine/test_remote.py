"""Engines at an address keep the promises of the port, in the words of the protocol."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
import pytest
from sparks import alive
from tests.conformance.engine import EngineContract
from tests.conformance.engine_transforms import ALL, Heard, TransformContract
from tests.workers.engine.changes import APPEND, CITIES, RETRACT, cities
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.codec.blocks import MalformedMessage, decode_message, encode_message
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformResponseInternalError,
    TransformResponseProgress,
    TransformResponseSuccess,
)
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.port import job_listener
from odf_workers.engines.port.port import EngineListener
from odf_workers.engines.remote import remote
from odf_workers.engines.remote import server as serving
from odf_workers.engines.remote.remote import (
    RAW_QUERY,
    SERVICE,
    TRANSFORM,
    UNKNOWN_VERSION,
    RemoteEngine,
    unwrapped,
    wrapped,
)
from odf_workers.engines.remote.server import serve
from odf_workers.runtime.progress import JobLost

if TYPE_CHECKING:
    from odf_workers.engines.spark.session import SparkWhenNeeded

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "engine-messages.json").read_text())[
    "vectors"
]
Serve = Callable[..., RemoteEngine]


@pytest.fixture(scope="module")
def served() -> Iterator[Serve]:
    """Serves an engine on a free port and gives the remote one."""
    servers = []

    def start(engine: Any, **more: Any) -> RemoteEngine:
        server, port = serve(engine, "127.0.0.1:0", **more)
        servers.append(server)
        return RemoteEngine(engine.name, f"127.0.0.1:{port}", seconds=120)

    yield start
    for server in servers:
        server.stop(None)


@pytest.fixture(scope="module")
def datafusion(served: Serve) -> RemoteEngine:
    return served(DataFusionEngine(), at_once=2)


class TestRemoteDataFusion(EngineContract, TransformContract):
    cuts_to_zero = True

    @pytest.fixture
    def engine(self, datafusion: RemoteEngine) -> Any:
        return datafusion


@pytest.fixture(scope="module")
def sparks(served: Serve, spark_of_the_run: SparkWhenNeeded) -> RemoteEngine:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    return served(SparkEngine(alive(spark_of_the_run)), at_once=2)


@pytest.mark.spark
class TestRemoteSpark(EngineContract, TransformContract):
    @pytest.fixture
    def engine(self, sparks: RemoteEngine) -> Any:
        return sparks


class Scripted:
    """Answers what it is told to."""

    name = "scripted"
    version = "7"

    def __init__(self, answer: Any, *, seconds: float = 0.0, progress: int = 0) -> None:
        self.answer, self.seconds, self.signs = answer, seconds, progress
        self.asked: list[Any] = []

    def execute_raw_query(self, request: Any, listener: Any) -> Any:
        return self.execute_transform(request, listener)

    def execute_transform(self, request: Any, listener: Any) -> Any:
        self.asked.append(request)
        for _ in range(self.signs):
            listener.progress()
        time.sleep(self.seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def request_of(name: str) -> Any:
    vector = next(v for v in VECTORS if v["name"] == name)
    return decode_message(vector["message"], bytes.fromhex(vector["bytes"]))


# --- waiting ------------------------------------------------------------------------------


class Lost(EngineListener):
    """Of a job that is not ours any more once the engine has begun."""

    def __init__(self, begun: threading.Event) -> None:
        self._begun = begun

    def progress(self) -> None:
        if self._begun.is_set():
            raise JobLost


def test_an_engine_that_says_nothing_is_left_once_the_job_is_lost(
    served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(serving, "PROGRESS_SECONDS", 60.0)
    begun, left = threading.Event(), threading.Event()

    class Silent(Scripted):
        def execute_transform(self, request: Any, listener: Any) -> Any:
            listener.stops(left.set)
            begun.set()
            left.wait(60)
            return self.answer

    engine = served(Silent(RawQueryResponseSuccess(num_records=0)))
    with pytest.raises(JobLost):
        engine.execute_raw_query(request_of("raw-query-request"), Lost(begun))
    assert left.wait(60)


# --- messages -----------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_messages_on_the_wire_are_byte_for_byte_those_of_the_protocol(
    vector: dict[str, Any],
) -> None:
    raw = bytes.fromhex(vector["bytes"])
    assert encode_message(vector["message"], decode_message(vector["message"], raw)) == raw
    assert unwrapped(wrapped(raw)) == raw
    assert wrapped(raw)[0] == 0x0A


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_a_buffer_of_any_length_is_wrapped_as_protobuf_does(size: int) -> None:
    from google.protobuf.internal import encoder

    written: list[bytes] = []
    encoder.BytesEncoder(1, False, False)(written.append, b"x" * size, None)
    assert wrapped(b"x" * size) == b"".join(written)
    assert unwrapped(wrapped(b"x" * size)) == b"x" * size


def test_fields_of_newer_peers_are_passed_over() -> None:
    unknown = b"\x10\x05" + b"\x1a\x03abc" + b"\x21" + bytes(8) + b"\x2d" + bytes(4)
    assert unwrapped(unknown + wrapped(b"buffer") + unknown) == b"buffer"


@pytest.mark.parametrize(
    "message", [b"", b"\x0a", b"\x0a\x05abc", b"\x10\x05", b"\x0b\x00", b"\xff" * 20]
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(MalformedMessage):
        unwrapped(message)


# --- serving ------------------------------------------------------------------------------


def raw_call(remote: RemoteEngine, path: str, message: bytes) -> list[bytes]:
    with grpc.insecure_channel(remote._address) as channel:
        return list(channel.unary_stream(path)(message, timeout=30))


class Endless(Scripted):
    """Computes until it is stopped."""

    def __init__(self) -> None:
        super().__init__(None)
        self.stopped = threading.Event()

    def execute_transform(self, request: Any, listener: Any) -> Any:
        listener.stops(self.stopped.set)
        assert self.stopped.wait(60)


@pytest.mark.parametrize(
    ("path", "request_name"),
    [
        (RAW_QUERY.path, "raw-query-request"),
        (TRANSFORM.path, "transform-request-minimal"),
    ],
)
def test_a_query_is_stopped_when_its_caller_leaves(
    path: str, request_name: str, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PROGRESS_SECONDS", 0.05)
    engine = Endless()
    remote = served(engine)
    message = next(v for v in VECTORS if v["name"] == request_name)["bytes"]
    with grpc.insecure_channel(remote._address) as channel:
        answers = channel.unary_stream(path)(wrapped(bytes.fromhex(message)), timeout=60)
        next(answers)
        answers.cancel()
    assert engine.stopped.wait(60)


def test_a_query_that_begins_to_run_after_its_caller_left_is_stopped_at_once() -> None:
    heard, stopped = serving.Served(), threading.Event()
    heard.left()
    heard.stops(stopped.set)
    assert stopped.is_set()


def test_a_path_with_a_zero_byte_is_outside_of_all_folders(served: Serve, tmp_path: Path) -> None:
    remote = served(Scripted(None), roots=[tmp_path])
    request = msgspec.structs.replace(
        request_of("raw-query-request"), output_data_path=f"{tmp_path}/a\0b"
    )
    refused = remote.execute_raw_query(request)
    assert isinstance(refused, RawQueryResponseInternalError)
    assert "outside of my folders (PERMISSION_DENIED)" in refused.message


@pytest.mark.parametrize(
    ("request_name", "answer_name"),
    [
        ("raw-query-request", "raw-query-success"),
        ("raw-query-request", "raw-query-invalid"),
        ("raw-query-request", "raw-query-error"),
        ("transform-request-minimal", "transform-success-empty"),
        ("transform-request-minimal", "transform-error"),
    ],
)
def test_a_coordinator_of_any_make_is_understood(
    request_name: str, answer_name: str, served: Serve
) -> None:
    asked = next(v for v in VECTORS if v["name"] == request_name)
    answer = next(v for v in VECTORS if v["name"] == answer_name)
    engine = Scripted(request_of(answer_name))
    call = RAW_QUERY if asked["message"] == "RawQueryRequest" else TRANSFORM
    answers = raw_call(served(engine), call.path, wrapped(bytes.fromhex(asked["bytes"])))
    assert [unwrapped(each).hex() for each in answers] == [answer["bytes"]]
    assert engine.asked == [request_of(request_name)]


def test_a_long_query_shows_that_it_is_alive(
    served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PROGRESS_SECONDS", 0.05)
    remote = served(Scripted(TransformResponseSuccess(), seconds=0.6, progress=2))
    heard = Heard()
    assert (
        remote.execute_transform(request_of("transform-request-minimal"), heard)
        == TransformResponseSuccess()
    )
    assert heard.alive >= 5
    first = raw_call(
        remote,
        TRANSFORM.path,
        wrapped(encode_message("TransformRequest", request_of("transform-request-minimal"))),
    )[0]
    assert decode_message("TransformResponse", unwrapped(first)) == TransformResponseProgress()


def test_warnings_come_along(served: Serve, tmp_path: Path) -> None:
    derivative = Derivative(
        engine=served(DataFusionEngine()),
        folder=tmp_path,
        transform=sql("select event_time, city from cities", engine="datafusion"),
        schemas={"cities": CITIES},
    )
    heard = Heard()
    derivative.run({"cities": cities((APPEND, "a", 1), (RETRACT, "a", 1))}, listener=heard)
    assert len(heard.warnings) == 1


def test_the_number_of_late_rows_comes_along(served: Serve) -> None:
    class Late(Scripted):
        def execute_transform(self, request: Any, listener: Any) -> Any:
            listener.late(7)
            return super().execute_transform(request, listener)

    remote, heard = served(Late(TransformResponseSuccess())), job_listener.Heard()
    remote.execute_transform(request_of("transform-request-minimal"), heard)
    assert heard.late_rows == 7


def test_an_engine_that_breaks_is_an_answer_without_its_secrets(served: Serve) -> None:
    remote = served(Scripted(RuntimeError("password=hunter2")))
    answer = remote.execute_transform(request_of("transform-request-minimal"))
    assert isinstance(answer, TransformResponseInternalError)
    assert "hunter2" not in answer.message


def test_nonsense_is_refused_and_the_engine_goes_on(served: Serve) -> None:
    remote = served(Scripted(RawQueryResponseSuccess(num_records=1)))
    for message in (b"", b"\x0a\x03abc", wrapped(b"nothing of that kind"), bytes(1000)):
        with pytest.raises(grpc.RpcError) as refused:
            raw_call(remote, RAW_QUERY.path, message)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert remote.execute_raw_query(request_of("raw-query-request")) == RawQueryResponseSuccess(
        num_records=1
    )


def test_a_message_beyond_the_limit_is_refused(served: Serve) -> None:
    remote = served(Scripted(RawQueryResponseSuccess(num_records=1)), message_bytes=10_000)
    request = RawQueryRequest(
        input_data_paths=("/" + "x" * 20_000,),
        transform=sql("select 1", engine="scripted"),
        output_data_path="/out",
    )
    answer = remote.execute_raw_query(request)
    assert isinstance(answer, RawQueryResponseInternalError)
    assert "RESOURCE_EXHAUSTED" in answer.message


def test_files_outside_of_the_folders_of_the_engine_are_not_touched(
    served: Serve, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    engine = served(DataFusionEngine(), roots=(inside,))
    for folder, works in ((inside, True), (outside, False)):
        derivative = Derivative(
            engine=engine,
            folder=folder,
            transform=sql(ALL, engine="datafusion"),
            schemas={"cities": CITIES},
        )
        answer = derivative.run({"cities": cities((APPEND, "a", 1))})
        assert isinstance(answer, TransformResponseSuccess) is works
    assert "PERMISSION_DENIED" in answer.message


def test_no_more_queries_than_allowed_run_at_once(served: Serve) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    class Counting(Scripted):
        def execute_transform(self, request: Any, listener: Any) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.05)
            with lock:
                running -= 1
            return self.answer

    remote = served(Counting(TransformResponseSuccess()), at_once=2)
    request = request_of("transform-request-minimal")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: remote.execute_transform(request), range(6)))
    assert answers == [TransformResponseSuccess()] * 6
    assert most == 2


# --- calling ------------------------------------------------------------------------------


def test_name_and_version_of_a_remote_engine_are_known(served: Serve) -> None:
    engine = DataFusionEngine()
    remote = served(engine)
    assert (remote.name, remote.version) == (engine.name, engine.version)


def test_the_version_is_that_of_the_engine_that_is_there_now() -> None:
    engine: Any = DataFusionEngine()
    engine.version = "7"
    server, port = serve(engine, "127.0.0.1:0")
    remote = RemoteEngine(engine.name, f"127.0.0.1:{port}")
    try:
        assert remote.version == "7"
        engine.version = "8 beta"
        assert remote.version == "8_beta"
    finally:
        server.stop(None).wait()
    assert remote.version == "8_beta"


def foreign(answers: list[bytes], *, hang: float = 0.0) -> tuple[grpc.Server, str]:
    """An engine of somebody else: the two calls, and nothing beside them."""

    def answer(_request: bytes, _context: Any) -> Iterator[bytes]:
        yield from answers
        time.sleep(hang)

    handler = grpc.unary_stream_rpc_method_handler(answer)
    calls = {RAW_QUERY.method: handler, TRANSFORM.method: handler}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [wrapped(encode_message("TransformResponse", TransformResponseProgress()))] * 3,
        [b"nonsense"],
        [wrapped(b"nonsense")],
    ],
)
def test_an_engine_that_does_not_answer_is_an_error_of_the_engine(answers: list[bytes]) -> None:
    server, address = foreign(answers)
    try:
        remote = RemoteEngine("flink", address, seconds=30)
        answer = remote.execute_transform(request_of("transform-request-minimal"))
        assert isinstance(answer, TransformResponseInternalError)
        assert remote.version == UNKNOWN_VERSION
    finally:
        server.stop(None)


def test_the_first_answer_that_is_no_progress_is_the_answer() -> None:
    said = [TransformResponseProgress(), TransformResponseSuccess(), TransformResponseProgress()]
    raw = [wrapped(encode_message("TransformResponse", each)) for each in said]
    server, address = foreign(raw, hang=60.0)
    try:
        began = time.monotonic()
        remote = RemoteEngine("flink", address, seconds=90)
        answer = remote.execute_transform(request_of("transform-request-minimal"))
        assert answer == TransformResponseSuccess()
        assert time.monotonic() - began < 60
    finally:
        server.stop(None)


def test_an_address_where_nobody_listens_is_an_error_of_the_engine() -> None:
    remote = RemoteEngine("spark", "127.0.0.1:9", seconds=20)
    answer = remote.execute_raw_query(request_of("raw-query-request"))
    assert isinstance(answer, RawQueryResponseInternalError)
    assert "127.0.0.1:9" in answer.message


def test_an_engine_that_takes_too_long_is_not_waited_for() -> None:
    server, address = foreign([], hang=5.0)
    try:
        remote = RemoteEngine("flink", address, seconds=0.5)
        answer = remote.execute_raw_query(request_of("raw-query-request"))
        assert isinstance(answer, RawQueryResponseInternalError)
        assert "DEADLINE_EXCEEDED" in answer.message
    finally:
        server.stop(None)


def test_a_query_that_is_wrong_is_told_from_an_engine_that_fails(served: Serve) -> None:
    remote = served(Scripted(RawQueryResponseInvalidQuery(message="boop")))
    answer = remote.execute_raw_query(request_of("raw-query-request"))
    assert answer == RawQueryResponseInvalidQuery(message="boop")
