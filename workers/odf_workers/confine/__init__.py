"""Confine a process before it runs untrusted code, as far as the kernel can.

A parent describes in `Rules` what its child may do, and starts it with a restricted `environment`:
either any command after a `launcher`, or a Python program of ours that first calls `confine`.
"""

from .apply import PARTS as PARTS
from .apply import SETTING as SETTING
from .apply import CannotConfine as CannotConfine
from .apply import confine as confine
from .apply import missing as missing
from .apply import told as told
from .rules import Mode as Mode
from .rules import Rules as Rules
from .rules import environment as environment
from .rules import launcher as launcher
from .rules import program as program
from .rules import program_reads as program_reads
