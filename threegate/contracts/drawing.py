"""`threegate contracts graph`: phases, tools and preconditions as Mermaid text or as one SVG file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from threegate.contracts.compiled import Compiled
from threegate.contracts.tool_rules import Rules

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 44, 70, 26, 30


def edges_of(rules: Rules) -> tuple[list[str], list[tuple[str, str, str]]]:
    """(nodes, edges): ``phase:name`` and ``tool:name``; edges are (from, to, what)."""
    nodes = [f"phase:{phase.name}" for phase in rules.contract.phases]
    nodes += [f"tool:{name}" for name in rules.plans]
    edges = [
        (f"phase:{source}", f"phase:{target}", "then")
        for source, targets in rules.contract.transitions.items()
        for target in targets
    ]
    for name, plan in rules.plans.items():
        edges += [(f"phase:{phase}", f"tool:{name}", "allows") for phase in sorted(plan.phases or ())]
        if plan.advances_to is not None:
            edges.append((f"tool:{name}", f"phase:{plan.advances_to}", "advances to"))
        edges += [
            (f"tool:{item.requires_prior_tool}", f"tool:{name}", "before")
            for item in plan.contract.preconditions
            if item.requires_prior_tool is not None
        ]
        edges += [(f"tool:{name}", f"tool:{other}", "forbids") for other in plan.contract.forbids_after]
    return nodes, edges


def mermaid(compiled: Compiled) -> str:
    """A Mermaid flowchart of session.yaml."""
    nodes, edges = edges_of(compiled.rules)
    names = {node: f"n{index}" for index, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        kind, _, name = node.partition(":")
        shape = f'(["{name}"])' if kind == "phase" else f'["{name}"]'
        lines.append(f"  {names[node]}{shape}")
    lines += [f"  {names[source]} -->|{what}| {names[target]}" for source, target, what in edges]
    return "\n".join(lines) + "\n"


def svg(compiled: Compiled) -> str:
    """One self-contained SVG: phases in a row on top, tools below them, edges as lines with their meaning."""
    rules = compiled.rules
    nodes, edges = edges_of(rules)
    phases = [node for node in nodes if node.startswith("phase:")]
    tools = [node for node in nodes if node.startswith("tool:")]
    columns = max(len(phases), min(len(tools), 5), 1)
    places = {node: (_MARGIN + index * (_WIDTH + _GAP_X), _MARGIN) for index, node in enumerate(phases)}
    top = _MARGIN + (_HEIGHT + 3 * _GAP_Y if phases else 0)
    for index, node in enumerate(tools):
        row, column = divmod(index, columns)
        places[node] = (_MARGIN + column * (_WIDTH + _GAP_X), top + row * (_HEIGHT + 2 * _GAP_Y))
    width = 2 * _MARGIN + columns * (_WIDTH + _GAP_X) - _GAP_X
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
    ]
    parts.extend(_lines(edges, places))
    for node, (x, y) in places.items():
        kind, _, name = node.partition(":")
        fill = "#dbe9ff" if kind == "phase" else "#f4f4f4"
        shown = name if len(name) <= 24 else name[:23] + "…"
        parts.append(
            f'<g><title>{escape(kind)} {escape(name)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'rx="{20 if kind == "phase" else 5}" fill="{fill}" stroke="#555"/>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(shown)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(edges: Iterable[tuple[str, str, str]], places: dict[str, tuple[int, int]]) -> Iterable[str]:
    for source, target, what in edges:
        (x1, y1), (x2, y2) = places[source], places[target]
        start: tuple[float, float]
        end: tuple[float, float]
        if y1 == y2:
            side = _WIDTH if x2 > x1 else 0
            start, end = (x1 + side, y1 + _HEIGHT / 2), (x2 + _WIDTH - side, y2 + _HEIGHT / 2)
        else:
            down = y2 > y1
            start = (x1 + _WIDTH / 2, y1 + (_HEIGHT if down else 0))
            end = (x2 + _WIDTH / 2, y2 + (0 if down else _HEIGHT))
        dash = ' stroke-dasharray="4 3"' if what in ("before", "forbids") else ""
        colour = "#b00020" if what == "forbids" else "#777"
        yield (
            f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="{colour}"{dash} '
            f'marker-end="url(#tip)"><title>{escape(what)}</title></line>'
        )
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 3)
        yield f'<text x="{middle[0]:g}" y="{middle[1]:g}" text-anchor="middle" font-size="10" fill="#555">{what}</text>'
