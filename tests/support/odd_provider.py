"""An identity provider that says what a test tells it to: right, wrong, late or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT, SECRET = "node", "a secret+of%ours, which is long enough for HS256"
LOGOUT = {"http://schemas.openid.net/event/backchannel-logout": {}}
Change = Callable[[dict[str, Any]], None]


def rsa_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@dataclass
class OddProvider:
    """What it says of persons, and how it behaves. `codes` are logins that wait for their token."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: rsa_key("one"))
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ann"})
    userinfo: dict[str, Any] | None = None
    described: dict[str, Any] = field(default_factory=dict)
    change_claims: Change = lambda _: None
    change_answer: Change = lambda _: None
    sign: Callable[[dict[str, Any]], str] | None = None
    waits: threading.Event | None = None
    """Requests wait for it."""
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def reset(self) -> None:
        kept = (self.url, self.key)
        self.__dict__.update(OddProvider(key=self.key).__dict__)
        self.url, self.key = kept

    def log_in(self, location: str) -> dict[str, str]:
        """Return what the browser brings back to the node, after the person logged in here."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert asked["response_type"] == "code", asked
        assert asked["code_challenge_method"] == "S256", asked
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def token(self, claims: dict[str, Any], **header: Any) -> str:
        made = {"alg": "RS256", "kid": self.key.kid, **header}
        return jwt.encode(made, claims, self.key)

    def by_secret(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET))

    def logout_token(self, **claims: Any) -> str:
        now = int(time.time())
        jti = f"number {time.monotonic_ns()}"
        told = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": jti}
        told |= {"events": LOGOUT, **claims}
        return self.token({name: value for name, value in told.items() if value is not None})

    def answer(self, path: str, form: dict[str, str], secret: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.waits is not None:
            self.waits.wait(60)
        match path:
            case "/.well-known/openid-configuration":
                return 200, self._description()
            case "/keys":
                # beside it, what other keys a provider may list
                others = [{"kty": "EC", "crv": "BP-256", "x": "", "y": ""}, {"kty": "new"}, "key"]
                return 200, {"keys": [*others, self.key.as_dict(private=False)]}
            case "/token":
                return self._token(form, secret)
            case "/userinfo" if self.userinfo is not None:
                return 200, self.userinfo
        return 404, {}

    def _description(self) -> dict[str, Any]:
        said = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=1",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/leave",
        }
        more = {} if self.userinfo is None else {"userinfo_endpoint": f"{self.url}/userinfo"}
        return {**said, **more, **self.described}

    def _token(self, form: dict[str, str], secret: str) -> tuple[int, dict[str, Any]]:
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if secret != f"{CLIENT}:{SECRET}":
            return 401, {"error": "invalid_client"}
        if begun is None or challenge != begun["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "<b>words</b>"}
        if form["redirect_uri"] != begun["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300}
        claims |= {"nonce": begun["nonce"], **self.claims}
        self.change_claims(claims)
        made = (self.sign or self.token)(claims)
        answer = {"access_token": "opaque", "token_type": "Bearer", "id_token": made}
        self.change_answer(answer)
        return 200, answer


@contextmanager
def odd_provider() -> Iterator[OddProvider]:
    """Serve a provider on this machine until the block ends."""
    its = OddProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*its.answer(urlsplit(self.path).path, {}, ""))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(raw).items()}
            basic = self.headers.get("authorization", "").removeprefix("Basic ")
            name, _, secret = base64.b64decode(basic).decode().partition(":")
            self._send(*its.answer(self.path, form, f"{unquote(name)}:{unquote(secret)}"))

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            raw = json.dumps(answer).encode()
            with suppress(BrokenPipeError, ConnectionResetError):  # the node gave up
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    its.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield its
    finally:
        server.shutdown()
        server.server_close()
