"""A small FTP server on loopback: one login, passive mode, files from memory."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from socket import create_server, socket


class _Session(socketserver.StreamRequestHandler):
    server: FtpServer
    opened: socket | None = None

    def finish(self) -> None:
        super().finish()
        if self.opened is not None:
            self.opened.close()

    def handle(self) -> None:
        self._say("220 ready")
        user = ""
        data = None
        for raw in self.rfile:
            word, _, rest = raw.decode().strip().partition(" ")
            self.server.asked.append(f"{word} {rest}".strip())
            match word.upper():
                case "USER":
                    user = rest
                    self._say("331 password")
                case "PASS":
                    good = self.server.login == (user, rest)
                    self._say("230 welcome" if good else "530 no")
                case "PASV":
                    data = self.opened = create_server(("127.0.0.1", 0))
                    port = data.getsockname()[1]
                    # The address is a lie on purpose: clients must not follow it.
                    self._say(f"227 passive (10,0,0,1,{port >> 8},{port & 255})")
                case "TYPE":
                    self._say("200 fine")
                case "RETR" if data is not None:
                    content = self.server.files.get(rest)
                    self._send(data, content)
                    data = None
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("500 what")

    def _send(self, data: socket, content: bytes | None) -> None:
        with data:
            if content is None:
                self._say("550 no such file")
                return
            self._say("150 coming")
            connection, _ = data.accept()
            with connection, suppress(OSError):  # the client may have had enough
                connection.sendall(content)
            self._say("226 done")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class FtpServer(socketserver.ThreadingTCPServer):
    """What it serves, who may log in, and what it was asked."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, files: Mapping[str, bytes], login: tuple[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.files, self.login = files, login
        self.asked: list[str] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def ftp_server(files: Mapping[str, bytes], login: tuple[str, str]) -> Iterator[FtpServer]:
    with FtpServer(files, login) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
