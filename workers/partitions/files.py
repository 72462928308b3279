"""Files as stages see them, wherever a stage runs: see `workers/engines/exchange`."""

from ..engines.exchange.executor_side import at_hand, deliver, workplace
from ..engines.exchange.files import Delivered, File, Outbox

__all__ = ["Delivered", "File", "Outbox", "at_hand", "deliver", "workplace"]
