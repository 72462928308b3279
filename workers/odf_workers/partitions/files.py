"""Files as stages access them, on any machine: see `odf_workers/engines/exchange`."""

from ..engines.exchange.executor_side import at_hand, deliver, workplace
from ..engines.exchange.files import Delivered, File, Outbox, Span, Spans

__all__ = [
    "Delivered",
    "File",
    "Outbox",
    "Span",
    "Spans",
    "at_hand",
    "deliver",
    "workplace",
]
