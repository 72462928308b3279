"""The page on which a user approves the login of a command line: plain HTML without scripts or
external resources."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from string import Template

from starlette.responses import HTMLResponse, Response

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}

_FRAME = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in - ODF Node</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 24rem; margin: 4rem auto; padding: 0 1rem }
label, button { display: block; margin-top: 1rem }
input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: .4rem }
button { font: inherit; padding: .4rem 1rem }
input.tick { display: inline; width: auto }
dd { margin: 0 0 .5rem 1rem }
.problem { color: #a00 }
</style>
</head>
<body>
<main>
<h1>$title</h1>
$body
</main>
</body>
</html>
""")
_CODE = Template("""<p>A command line that wants to act in your name shows you a code. Type it
here only if you started it yourself, a moment ago.</p>
$problem
<form method="post" action="login" autocomplete="off">
<label>Code <input name="userCode" placeholder="XXXX-XXXX" maxlength="20" required autofocus
autocapitalize="characters" spellcheck="false"></label>
<button name="decision" value="look">Go on</button>
</form>""")
_DECISION = Template("""<p>A program asks to act in your name. Let it in only if you started it
yourself.</p>
<dl>
<dt>Program (as it calls itself)</dt><dd>$client</dd>
<dt>Address</dt><dd>$address, which is $whose</dd>
<dt>Waiting for</dt><dd>$age</dd>
</dl>
$problem
<form method="post" action="login" autocomplete="on">
<input type="hidden" name="$name" value="$code">
$confirm
<label>Account <input name="login" autocomplete="username" required autofocus></label>
<label>Password
<input name="password" type="password" autocomplete="current-password" required></label>
<button name="decision" value="approve">Log in and let it in</button>
<button name="decision" value="deny" formnovalidate>Send it away</button>
</form>""")
_CONFIRM = """<label><input class="tick" type="checkbox" name="begun" value="yes" required>
I started this login myself; nobody sent me the link to this page.</label>"""
NOT_CONFIRMED = (
    "Tick that you started this login yourself. If somebody sent you the link, send it away: who "
    "sent it would act in your name."
)
UNKNOWN_CODE = "No command line waits with this code. Look at what it shows, or start it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Who waits for the decision of a user, and by which of the two codes the user came."""

    client: str
    address: str
    is_here: bool
    """Whether the page is looked at from the same address."""
    age_s: int
    secret: str
    typed: str


def code_page(*, problem: str = "", status: int = 200) -> Response:
    """Return the form for the short code."""
    return _page("Log in", _CODE.substitute(problem=_problem(problem)), status)


def decision_page(question: Question, *, problem: str = "", status: int = 200) -> Response:
    """Return the page that says who waits, with the form for the decision."""
    name = "userCode" if question.typed else "deviceCode"
    body = _DECISION.substitute(
        client=escape(question.client),
        address=escape(question.address),
        whose="yours, too" if question.is_here else "another than yours",
        age=_age(question.age_s),
        problem=_problem(problem),
        name=name,
        code=escape(question.typed or question.secret, quote=True),
        confirm="" if question.typed else _CONFIRM,
    )
    return _page("Log in", body, status)


def approved() -> Response:
    return _end("Done", "The command line is logged in. You can close this page.")


def denied() -> Response:
    return _end("Sent away", "The command line was not let in. You can close this page.")


def over() -> Response:
    return _end(
        "No login waits here",
        "The code is wrong, was used already, or has expired. Start the login again in the command "
        "line, and open the address that it prints.",
        404,
    )


def _end(title: str, text: str, status: int = 200) -> Response:
    return _page(title, f"<p>{escape(text)}</p>", status)


def _age(seconds: int) -> str:
    count, unit = (seconds // 60, "minute") if seconds >= 120 else (seconds, "second")
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _problem(text: str) -> str:
    return f'<p class="problem" role="alert">{escape(text)}</p>' if text else ""


def _page(title: str, body: str, status: int) -> Response:
    return HTMLResponse(_FRAME.substitute(title=title, body=body), status, HEADERS)
