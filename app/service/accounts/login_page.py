"""The page on which a user approves the login of a command line: plain HTML without scripts or
external resources."""

from __future__ import annotations

from enum import Enum
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
_FORM = Template("""<p>A command line asks to act in your name. Go on only if you started it
yourself, a moment ago.</p>
$problem
<form method="post" action="login" autocomplete="on">
<input type="hidden" name="deviceCode" value="$code">
<label>Account <input name="login" autocomplete="username" required autofocus></label>
<label>Password
<input name="password" type="password" autocomplete="current-password" required></label>
<button name="decision" value="approve">Log in and let it in</button>
<button name="decision" value="deny" formnovalidate>Send it away</button>
</form>""")


class Page(Enum):
    """The states of the page: its title, and its text (empty for the form)."""

    FORM = ("Log in", "")
    APPROVED = ("Done", "The command line is logged in. You can close this page.")
    DENIED = ("Sent away", "The command line was not let in. You can close this page.")
    OVER = ("Too late", "No command line waits here any more. Start the login again.")


def page(which: Page, code: str, *, problem: str = "", status: int | None = None) -> Response:
    """Return the page as a response. `problem` is shown above the form."""
    title, text = which.value
    body = f"<p>{escape(text)}</p>"
    if which is Page.FORM:
        shown = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
        body = _FORM.substitute(problem=shown, code=escape(code, quote=True))
    usual = 404 if which is Page.OVER else 200
    content = _FRAME.substitute(title=escape(title), body=body)
    return HTMLResponse(content, status or usual, HEADERS)
