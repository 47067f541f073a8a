"""The report's page: one HTML file with its style and script inside; nothing is loaded from anywhere.

Invariant: every value is in the page escaped (HTML) or in one JSON block in which no ``<`` is left; the
page's own policy allows only this style and this script, by their hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

GROUPS: Final = (("succeeded", "Succeeded"), ("failed", "Ended otherwise"), ("refused", "Refused"), ("open", "Open"))
"""The four groups of the chart, in stacking order."""

_STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1c1d1f;--dim:#5f6368;--line:#e2e2de;--ok:#2f6f9f;
--bad:#c98a12;--no:#b3404a;--open:#8a8f98;--good-bg:#e4f1e7;--good:#1f6b3a;--alarm-bg:#fbe6e7;--alarm:#9b1c28}
@media(prefers-color-scheme:dark){:root{--bg:#151618;--card:#1d1f22;--ink:#e8e8e6;--dim:#a2a7ae;--line:#33363b;
--ok:#6ca9d8;--bad:#e0ac48;--no:#e07a83;--open:#7b818b;--good-bg:#17301f;--good:#8fd3a5;--alarm-bg:#3b1a1e;--alarm:#f3a4ab}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}h1{font-size:22px;margin:0}h2{font-size:16px;margin:0 0 10px}
.dim{color:var(--dim)}.banner{border-radius:8px;padding:12px 16px;margin:16px 0;font-weight:600}
.banner ul{font-weight:400;margin:6px 0 0;padding-left:20px}.good{background:var(--good-bg);color:var(--good)}
.alarm{background:var(--alarm-bg);color:var(--alarm)}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));
gap:10px;margin:14px 0}.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.tile b{display:block;font-size:24px;line-height:1.2;font-variant-numeric:tabular-nums}.card{margin:14px 0}
.legend{display:flex;gap:16px;flex-wrap:wrap;font-size:13px;color:var(--dim);margin-top:6px}
.swatch{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.succeeded{--c:var(--ok)}.failed{--c:var(--bad)}.refused{--c:var(--no)}.open{--c:var(--open)}
.swatch,.dot{background:var(--c)}rect.succeeded,rect.failed,rect.refused,rect.open{fill:var(--c)}
svg text{fill:var(--dim);font:11px system-ui,sans-serif}svg line{stroke:var(--line)}svg{display:block;width:100%;height:auto}
.tools{display:flex;gap:10px;flex-wrap:wrap;margin:18px 0 8px;align-items:center}
input,select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:7px 10px}
input{flex:1 1 260px}input:focus-visible,select:focus-visible,button:focus-visible,summary:focus-visible{outline:2px solid var(--ok);outline-offset:1px}
details{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:6px 0}
summary{display:grid;grid-template-columns:14px minmax(0,1fr) auto auto;gap:10px;padding:8px 12px;cursor:pointer;align-items:center;list-style:none}
summary::-webkit-details-marker{display:none}.dot{width:10px;height:10px;border-radius:50%}
.id{overflow-wrap:anywhere;font-weight:600}.state,.when{font-size:13px;color:var(--dim);white-space:nowrap}
.body{border-top:1px solid var(--line);padding:10px 14px}table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;vertical-align:top;padding:3px 10px 3px 0;overflow-wrap:anywhere}th{color:var(--dim);font-weight:500}
td:first-child{white-space:nowrap;font-variant-numeric:tabular-nums}code{font:12px ui-monospace,monospace}
@media(max-width:620px){summary{grid-template-columns:14px 1fr auto}.when{display:none}}
@media print{:root{color-scheme:light;--bg:#fff;--card:#fff;--ink:#000;--dim:#444;--line:#bbb}.tools,#more{display:none}
main{max-width:none;padding:0}details,.card,.tile{break-inside:avoid}body{font-size:11px}}
"""  # noqa: E501

_SCRIPT = """
"use strict";
const all=JSON.parse(document.getElementById("data").textContent);
const list=document.getElementById("list"),more=document.getElementById("more"),count=document.getElementById("count");
const box=document.getElementById("search"),group=document.getElementById("group");
const step=100;let shown=0,found=all;
for(const item of all)item.text=JSON.stringify(item).toLowerCase();
function make(name,text,kind){const node=document.createElement(name);if(text!==undefined)node.textContent=text;
 if(kind)node.className=kind;return node}
function row(cells,head){const tr=make("tr");for(const cell of cells)tr.append(make(head?"th":"td",cell));return tr}
function fill(body,item){
 const facts=make("table");for(const [name,value] of item.facts)facts.append(row([name,value]));body.append(facts);
 const story=make("table");story.append(row(["when","who","what"],true));
 for(const [seq,when,who,what] of item.story)story.append(row([when.replace("T"," ").slice(0,19),who,what+"  #"+seq]));
 body.append(make("p","What happened","dim"),story);
 if(item.outputs.length){const out=make("table");out.append(row(["file","sha256"],true));
  for(const [path,digest] of item.outputs)out.append(row([path,digest]));body.append(make("p","Outputs","dim"),out)}}
function entry(item){const box=make("details");box.className=item.group;const head=make("summary");
 head.append(make("span",undefined,"dot"),make("span",item.id,"id"),make("span",item.state,"state"),make("span",item.when.replace("T"," ").slice(0,16),"when"));
 const body=make("div",undefined,"body");box.append(head,body);
 box.addEventListener("toggle",()=>{if(box.open&&!body.hasChildNodes())fill(body,item)});return box}
function grow(to){const part=document.createDocumentFragment();for(;shown<to&&shown<found.length;shown++)part.append(entry(found[shown]));
 list.append(part);more.hidden=shown>=found.length;more.textContent="Show more ("+(found.length-shown)+" left)";
 count.textContent=found.length+" of "+all.length+" requests"}
function search(){const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);
 found=all.filter(item=>(!group.value||item.group===group.value)&&words.every(word=>item.text.includes(word)));
 list.replaceChildren();shown=0;grow(step)}
box.addEventListener("input",search);group.addEventListener("change",search);more.addEventListener("click",()=>grow(shown+step));
window.addEventListener("beforeprint",()=>{grow(found.length);for(const item of list.children)item.open=true});
if(location.hash.startsWith("#q="))box.value=decodeURIComponent(location.hash.slice(3));
search();if(location.hash==="#open"&&list.firstChild)list.firstChild.open=true;
"""  # noqa: E501


def render_page(
    *,
    title: str,
    made: str,
    verdict: str,
    problems: Sequence[str],
    tiles: Sequence[tuple[str, str]],
    days: Sequence[tuple[str, Mapping[str, int]]],
    practice: Sequence[tuple[str, str]],
    requests: Sequence[Mapping[str, Any]],
    note: str = "",
) -> str:
    """The whole page. `days` are (label, group to count), `practice` (label, value); `requests` have the keys that the
    script reads.

    `note` is printed above the list.
    """
    policy = (
        f"default-src 'none'; style-src '{_hash(_STYLE)}'; script-src '{_hash(_SCRIPT)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # `</script>` in a value would end the block.
    data = json.dumps(requests, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    items = "".join(f"<li>{_text(item)}</li>" for item in problems)
    banner = f'<div class="banner {"alarm" if problems else "good"}">{_text(verdict)}'
    banner += f"<ul>{items}</ul></div>" if items else "</div>"
    tile_html = "".join(
        f'<div class="tile"><b>{_text(value)}</b><span class="dim">{_text(name)}</span></div>' for name, value in tiles
    )
    options = "".join(f'<option value="{key}">{name}</option>' for key, name in GROUPS)
    legend = "".join(f'<span class="{key}"><span class="swatch"></span>{name}</span>' for key, name in GROUPS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>{_text(title)}</h1><div class="dim">{_text(made)}</div>{banner}'
        f'<div class="tiles">{tile_html}</div>'
        f'<section class="card"><h2>Requests by day and outcome</h2>{_chart(days)}<div class="legend">{legend}</div></section>'  # noqa: E501
        f"{_practice(practice)}"
        '<div class="tools"><input id="search" type="search" placeholder="Search ids, names, reasons, hashes" '
        'aria-label="Search"><select id="group" aria-label="Outcome"><option value="">All outcomes</option>'
        f'{options}</select><span id="count" class="dim" role="status"></span></div>'
        f'{f"<p class=dim>{_text(note)}</p>" if note else ""}<div id="list"></div><button id="more" hidden>Show more</button>'  # noqa: E501
        "<noscript><p>The list of requests needs this page's own script; the trail itself can be read with "
        "<code>threegate audit show</code>.</p></noscript>"
        f'<script id="data" type="application/json">{data}</script><script>{_SCRIPT}</script>'
        "</main></body></html>\n"
    )


def _practice(lines: Sequence[tuple[str, str]]) -> str:
    if not lines:
        return ""
    rows = "".join(f"<tr><td>{_text(label)}</td><td>{_text(value)}</td></tr>" for label, value in lines)
    return f'<section class="card"><h2>How people decided</h2><table>{rows}</table></section>'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(value: str) -> str:
    return html.escape(value)


def _chart(days: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """Stacked bars as SVG: one bar a day, a scale with round numbers, every bar with its numbers as a title."""
    width, height, left, bottom, top = 1000, 220, 44, 24, 10
    highest = max((sum(counts.values()) for _, counts in days), default=0) or 1
    step = round_step(highest)
    scale = (height - bottom - top) / (-(-highest // step) * step)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Requests by day and outcome">']
    for value in range(0, highest + step, step):
        y = height - bottom - value * scale
        if y < top - 1:
            break
        parts.append(f'<line x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    slot = (width - left) / max(1, len(days))
    bar = min(38.0, slot * 0.72)
    every = max(1, -(-len(days) // 10))
    for number, (label, counts) in enumerate(days):
        x = left + slot * number + (slot - bar) / 2
        y = float(height - bottom)
        told = ", ".join(f"{counts[key]} {name.lower()}" for key, name in GROUPS if counts.get(key))
        parts.append(f"<g><title>{_text(label)}: {_text(told or 'none')}</title>")
        for key, _ in GROUPS:
            if counts.get(key):
                tall = counts[key] * scale
                y -= tall
                parts.append(
                    f'<rect class="{key}" x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{max(0.5, tall - 1):.1f}"/>'
                )
        parts.append("</g>")
        if number % every == 0:
            parts.append(
                f'<text x="{left + slot * (number + 0.5):.1f}" y="{height - 7}" text-anchor="middle">{_text(label)}</text>'  # noqa: E501
            )
    return "".join([*parts, "</svg>"])


def round_step(highest: int) -> int:
    """A step of 1, 2 or 5 times a power of ten that gives about four lines."""
    step = 1
    while highest / step > 5:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step
