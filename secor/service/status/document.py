"""The frame of every status page, and what the browser may do with it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

STYLE = """
:root{color-scheme:light dark;--line:#8885;--soft:#767676;--tile:#8881;--bad:#c0262d;--well:#1d7a36}
@media(prefers-color-scheme:dark){:root{--soft:#999;--bad:#ff6b6b;--well:#5fc77a}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:1.2rem auto;max-width:80rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.4rem 0;overflow-wrap:anywhere}
#lost{position:sticky;top:0;margin:0 0 .8rem;padding:.5rem .7rem;border-radius:.4rem;
background:var(--bad);color:Canvas;font-weight:600}
.errors{list-style:none;margin:.6rem 0;padding:0}.errors li{margin:.4rem 0;overflow-wrap:anywhere}
details{display:inline}summary{display:inline;cursor:pointer;text-decoration:underline}
.soft{color:var(--soft)}.bad{color:var(--bad)}.well{color:var(--well)}
a{color:inherit}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));
gap:.5rem;margin:.8rem 0}
.tiles div{background:var(--tile);border-radius:.4rem;padding:.5rem .7rem}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.15rem;font-weight:600;
overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th,td{padding:.35rem .6rem;text-align:right;vertical-align:top}
th{font-weight:600;font-size:.85rem;color:var(--soft);white-space:nowrap}
td{font-variant-numeric:tabular-nums}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
td:first-child{font-weight:600}
td:first-child,.note{overflow-wrap:anywhere}
tr .note{text-align:left;font-weight:400;padding:0 .6rem .35rem 1.6rem}
tbody{border-top:1px solid var(--line)}
.part{white-space:nowrap}
.set p,.unset p{margin:.15rem 0;break-inside:avoid}
.unset{columns:22rem;color:var(--soft)}
code{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
@media(max-width:60rem){
thead{display:none}table,tbody,tr,td{display:block}
tbody{padding:.6rem 0}
td,tr .note{text-align:left;padding:.1rem 0}
tr td:first-child{margin-bottom:.2rem}
td[data-name]{display:grid;grid-template-columns:7rem 1fr}
td[data-name]::before{content:attr(data-name);color:var(--soft)}
tr .note{margin-top:.3rem}
.tiles{grid-template-columns:repeat(auto-fill,minmax(7rem,1fr))}dd{font-size:1rem}}
"""


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
      + " Below is its last report.";
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
