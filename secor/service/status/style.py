"""How the pages look."""

from __future__ import annotations

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
