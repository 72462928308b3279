"""Files as stages access them, on any machine: see `workers/engines/exchange`."""

from ..engines.exchange.executor_side import at_hand, deliver, present, workplace
from ..engines.exchange.files import Delivered, Enclosed, File, Outbox

__all__ = ["Delivered", "Enclosed", "File", "Outbox", "at_hand", "deliver", "present", "workplace"]
