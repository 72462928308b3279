"""Files as stages access them, on any machine: see `workers/engines/exchange`."""

from ..engines.exchange.executor_side import at_hand, deliver, present, workplace
from ..engines.exchange.files import Delivered, Enclosed, File, Outbox, Span, Spans

__all__ = [
    "Delivered",
    "Enclosed",
    "File",
    "Outbox",
    "Span",
    "Spans",
    "at_hand",
    "deliver",
    "present",
    "workplace",
]
