"""Proposals as hypothesis makes them: mostly well-formed, then bent in one or more places."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from threegate.plugins.proposals.tools import RISKS, SCHEMA_VERSION, TOOLS, ToolField

WORDS = st.sampled_from(
    [
        "README.md",
        "src",
        "a/b.txt",
        "notes",
        "fix the build",
        "x",
        "",
        " ",
        "é",
        "owner/name",
        "#id",
        ".env",
        "../x",
    ]
)
TEXTS = st.one_of(WORDS, st.text(max_size=12))
URLS = st.one_of(
    st.sampled_from(
        [
            "https://example.com/",
            "http://example.com:8080/a?b#c",
            "HTTPS://EXAMPLE.com/a b",
            "http://[::1]/",
            "http://[v1.x]/",
            "http://[1:2:3:4:5:6:7:8:9]/",
            "http://u:p@h/",
            "javascript:alert(1)",
            "http:example.com",
            "http://%zz/",
            "//x",
            "x",
            "",
            "urn:a:b",
            "http://a/%41?%",
            "http://exa mple.com",
        ]
    ),
    st.text(alphabet="htp:/[]@.%12fx?#ä -", max_size=14),
)
TIMES = st.one_of(
    st.sampled_from(
        [
            "2026-01-02T03:04:05Z",
            "2026-01-02t03:04:05.123z",
            "2026-02-29T00:00:00Z",
            "2024-02-29T00:00:00+01:00",
            "2026-01-02T03:04:60Z",
            "2026-01-02 03:04:05Z",
            "0000-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02",
        ]
    ),
    st.text(alphabet="0123456789-:TZ+.", max_size=25),
)
JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2_000_000),
    st.sampled_from([5.0, 1.5, -0.0, 1e3]),
    TEXTS,
    st.lists(st.one_of(TEXTS, st.integers(0, 3)), max_size=3),
    st.dictionaries(TEXTS, st.integers(0, 3), max_size=2),
)


def argument(field: ToolField) -> st.SearchStrategy[Any]:
    """A value of a field that the schema takes, URLs aside."""
    if field.kind == "integer":
        return st.one_of(
            st.integers(field.minimum, field.maximum),
            st.sampled_from([field.minimum, field.maximum, float(field.minimum)]),
        )
    if field.kind == "boolean":
        return st.booleans()
    if field.kind == "strings":
        return st.lists(TEXTS, min_size=field.min_items, max_size=min(field.max_items, 4))
    return URLS if field.uri else TEXTS


@st.composite
def proposals(draw: st.DrawFn) -> dict[str, Any]:
    """A proposal that names a tool and gives it arguments of the right kind."""
    tool = TOOLS[draw(st.sampled_from(sorted(TOOLS)))]
    args = {
        name: draw(argument(field))
        for name, field in tool.fields.items()
        if name in tool.required or draw(st.booleans())
    }
    value: dict[str, Any] = {"tool": tool.name, "args": args}
    for key, strategy in (
        ("schemaVersion", st.just(SCHEMA_VERSION)),
        ("risk", st.sampled_from(RISKS)),
        ("id", TEXTS),
        ("source", TEXTS),
        ("task", TEXTS),
        ("reason", TEXTS),
        ("createdAt", TIMES),
    ):
        if draw(st.integers(0, 3)) == 0:
            value[key] = draw(strategy)
    return value


@st.composite
def bent_proposals(draw: st.DrawFn) -> Any:
    """A proposal with up to two places replaced, added or taken away; now and then no proposal at all."""
    if draw(st.integers(0, 30)) == 0:
        return draw(JUNK)
    value = draw(proposals())
    for _ in range(draw(st.integers(0, 2))):
        args = value.get("args")
        where = value if not isinstance(args, dict) or draw(st.booleans()) else args
        known = sorted({name for tool in TOOLS.values() for name in tool.fields})
        key = draw(
            st.one_of(
                st.sampled_from([*sorted(where), "x"]),
                st.sampled_from([*known, "schemaVersion", "risk", "createdAt", "tool", "args"]),
            )
        )
        if key in where and draw(st.booleans()):
            del where[key]
        else:
            where[key] = draw(JUNK)
    return value
