"""A program that writes the small files it is told on its input; `staged_files.py` starts it.

    python -I -S file_writer.py FOLDER

Input: for each file the lengths of its name and content (`HEAD`), name, content; a name without
letters says that all is told. Output: `OUTCOME`, the number of files written and the number of
the error that ended it, or 0. Writing files is nearly all system calls, each of which would wait
for the interpreter of a process that decodes blocks meanwhile. It imports nothing of ours and
starts in the time that a hundred files take.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import sys
from typing import BinaryIO

HEAD = struct.Struct("<HI")
OUTCOME = struct.Struct("<qi")
END = HEAD.pack(0, 0)
BUFFER_BYTES = 1 << 18


def write_file(
    name: str | bytes, content: bytes, *, folder: int | None = None, sync: bool = False
) -> bool:
    """A new file; False if there is one of that name. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(name, flags, 0o644, dir_fd=folder)
    except FileExistsError:
        return False
    try:
        written = os.write(handle, content)
        while written < len(content):
            written += os.write(handle, content[written:])
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)
    return True


def write_all(told: BinaryIO) -> int:
    """Write into the working folder until the end is told; how many. Raises `OSError`."""
    count, read, parse = 0, told.read, HEAD.unpack
    while len(head := read(HEAD.size)) == HEAD.size:
        name_length, length = parse(head)
        if not name_length:
            return count
        name, content = read(name_length), read(length)
        if len(content) < length:
            break
        count += write_file(name, content)
    raise BrokenPipeError(errno.EPIPE, "who told the files is gone")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this decides when it ends
    count = error = 0
    try:
        os.chdir(sys.argv[1])
        with open(0, "rb", BUFFER_BYTES) as told:
            count = write_all(told)
    except OSError as reason:
        error = reason.errno or errno.EIO
    os.write(1, OUTCOME.pack(count, error))


if __name__ == "__main__":
    main()
