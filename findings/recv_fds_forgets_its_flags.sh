#!/bin/bash
# `socket.recv_fds(sock, size, maxfds, flags)` of Python 3.11 drops its documented `flags`: with MSG_DONTWAIT it waits, and MSG_PEEK takes.
# The guess: flags go to recvmsg, so an empty socket raises BlockingIOError at once, and a peeked message is still there.
# Only the standard library takes part, so nothing is installed. Exits non-zero if that changes, or if there is no Python 3.11.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3.11 - <<'P'
import signal, socket, sys, time

def stop(*_):
    raise TimeoutError

signal.signal(signal.SIGALRM, stop)
ours, theirs = socket.socketpair()
signal.setitimer(signal.ITIMER_REAL, 1)  # a blocking socket; else nothing would end the wait
began = time.monotonic()
try:
    socket.recv_fds(ours, 10, 1, socket.MSG_DONTWAIT)
    empty = "an answer"
except OSError as error:
    empty = type(error).__name__
signal.setitimer(signal.ITIMER_REAL, 0)
waited = time.monotonic() - began
socket.send_fds(theirs, [b"one"], [0])
peeked, handles, _, _ = socket.recv_fds(ours, 10, 1, socket.MSG_PEEK)
try:
    again = ours.recv(10, socket.MSG_DONTWAIT)
except BlockingIOError:
    again = None
print(f"Python {sys.version.split()[0]}, an empty socket and MSG_DONTWAIT: {empty} after {waited:.1f} s")
print(f"MSG_PEEK gave {peeked!r} and {len(handles)} descriptor; the next recv: {again!r}")
try:
    ours.recvmsg(10, socket.CMSG_LEN(4), socket.MSG_DONTWAIT)
    direct = "an answer"
except BlockingIOError:
    direct = "BlockingIOError"
print(f"recvmsg with the same flag: {direct}")
print("guess: BlockingIOError after 0.0 s; MSG_PEEK leaves b'one' for the next recv")
sys.exit((empty, waited > 0.9, peeked, again, direct) != ("TimeoutError", True, b"one", None, "BlockingIOError"))
P
