"""OpenTelemetry traces, if the environment enables them by the standard variables (`OTEL_…`).

Spans are sent to the OTLP/HTTP endpoint of `OTEL_EXPORTER_OTLP_ENDPOINT` (or `…_TRACES_ENDPOINT`).
Without an endpoint there are no spans, and the packages need not be installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

from odf_protocol.errors import BadInput

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OFF = "OTEL_SDK_DISABLED"
Kind = Literal["server", "consumer"]
_NO_SPAN = nullcontext()
_provider: Any = None
"""The provider of the process; None until tracing has started."""


class TelemetryNotInstalled(BadInput):
    """The environment enables traces, but the packages for them are not installed."""


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    off = environ.get(OFF, "").lower() == "true"
    none = environ.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none"
    return not off and not none and any(environ.get(name) for name in ENDPOINTS)


def start_tracing(service: str, version: str) -> None:
    """Start to send spans, if the environment enables them. Raises `TelemetryNotInstalled`."""
    global _provider
    if _provider is not None or not is_wanted():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as missing:
        raise TelemetryNotInstalled(
            f"traces need the package {missing.name}: install odf-node[telemetry], or unset "
            + " and ".join(ENDPOINTS),
            package=missing.name,
        ) from None
    named = {"service.name": service, "service.version": version}
    if "OTEL_SERVICE_NAME" in os.environ:
        del named["service.name"]
    _provider = TracerProvider(resource=Resource.create(named))
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))


def stop_tracing() -> None:
    """Send the remaining spans and stop tracing."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


def is_tracing() -> bool:
    """Return whether spans are sent."""
    return _provider is not None


def span(name: str, kind: Kind, parent: str | None) -> AbstractContextManager[str | None]:
    """Open a span around the block, a child of `parent`; yield its `traceparent`, or None if off.

    An exception that leaves the block is recorded.
    """
    return _NO_SPAN if _provider is None else _span(name, kind, parent)


@contextmanager
def _span(name: str, kind: Kind, parent: str | None) -> Iterator[str | None]:
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent or ""})
    kinds = {"server": SpanKind.SERVER, "consumer": SpanKind.CONSUMER}
    tracer = _provider.get_tracer("odf-node")
    with tracer.start_as_current_span(name, context=context, kind=kinds[kind]):
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield carrier.get("traceparent")


def describe_span(name: str | None = None, **attributes: Any) -> None:
    """Set name and attributes of the current span; without a span do nothing."""
    if _provider is None:
        return
    from opentelemetry.trace import get_current_span

    current = get_current_span()
    if name is not None:
        current.update_name(name)
    current.set_attributes({key: value for key, value in attributes.items() if value is not None})
