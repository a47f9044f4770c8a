"""The frame of every status page, and what the browser may do with it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from secor.service.status.style import STYLE

REFRESH = 5
"""Seconds after which the page asks again."""

SCRIPT = f"""
"use strict";
let heard = Date.now();
async function renew() {{
  try {{
    const asked = {{cache: "no-store", signal: AbortSignal.timeout(10000)}};
    const answer = await fetch(location.pathname, asked);
    if (!answer.ok) throw new Error(`HTTP status ${{answer.status}}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const style = "style";
    if (fresh.querySelector(style).textContent !== document.querySelector(style).textContent)
      return location.reload();
    for (const it of document.querySelectorAll("details[open]"))
      fresh.getElementById(it.id)?.setAttribute("open", "");
    document.body.replaceWith(fresh.body);
    heard = Date.now();
  }} catch (error) {{
    const lost = document.getElementById("lost");
    const seconds = Math.round((Date.now() - heard) / 1000);
    lost.textContent = `No contact with this process for ${{seconds}} s (${{error.message}}).`
      + " What stands below is what it said last.";
    lost.hidden = false;
  }}
  setTimeout(renew, {REFRESH}000);
}}
setTimeout(renew, {REFRESH}000);
"""
"""Renews the body in place; when nobody answers it says so, and what was said last stays.

Without scripts the browser loads the page again.
"""


def document(title: str, body: Iterable[str]) -> str:
    """Return a whole page; ``body`` is HTML, the title is escaped here."""
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<noscript><meta http-equiv="refresh" content="{REFRESH}"></noscript>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f'<link rel="icon" href="data:,"><title>{escape(title)}</title>',
            f"<style>{STYLE}</style><script>{SCRIPT}</script></head><body>",
            '<p id="lost" role="alert" hidden></p>',
            *body,
            "</body></html>\n",
        ]
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; style-src {_source(STYLE)}; script-src {_source(SCRIPT)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = (("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"))
"""Should anything slip through escaping, the browser still runs and fetches nothing of it."""
