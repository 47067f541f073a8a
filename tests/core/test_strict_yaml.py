"""The strict YAML reader: what YAML 1.2.2 calls invalid is refused, what is accepted has one meaning.

Sections in the table are those of the YAML 1.2.2 specification. libyaml accepts most of what is refused here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import read_document
from threegate.core.strict_yaml import StrictYAMLRefused, YamlNode, read_yaml
from threegate.request.source import SourceRefused, read_mapping


def read(text: str, *, bare: bool = False, first_line: int = 1) -> YamlNode | None:
    return read_yaml(text, plain=str, max_depth=8, max_nodes=60, bare=bare, first_line=first_line)


def value(node: YamlNode | None) -> Any:
    """The texts of a tree, without places."""
    if node is None:
        return None
    if isinstance(node.value, list):
        return [value(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: value(item) for key, (_, item) in node.value.items()}
    return node.value


VALID = [
    # 6.1 to 6.7: indentation, separation, comments
    ("a:\tb\n", {"a": "b"}),
    ('a: "v" # c\n', {"a": "v"}),
    ("a: v# c\n", {"a": "v# c"}),
    ("a: [b,\t# c\n  d]\n# e\n", {"a": ["b", "d"]}),
    ("- # c\n  b\n-\n  - d\n", ["b", ["d"]]),
    ("a:\n - [\n\n  b\n  ]\n", {"a": [["b"]]}),
    ("[\n\ta,\nb\n]\n", ["a", "b"]),
    # 7.3: quoted and plain scalars
    ('a: "\\0\\a\\t\\/\\x41\\u00e9\\U0001f600\\\n  b"\n', {"a": "\0\a\t/A\u00e9\U0001f600b"}),
    ("a: 'it''s\n\n  b'\n", {"a": "it's\nb"}),
    ("a: -b\n?c: :d\ne: f:g\n", {"a": "-b", "?c": ":d", "e": "f:g"}),
    ("[-a, b:c, d?e, 'f']", ["-a", "b:c", "d?e", "f"]),
    ('{-: b, c:"d": e}', {"-": "b", 'c:"d"': "e"}),
    # 7.4: flow collections
    ('{"a":b, "c" :d, e: , ? f : g, h}', {"a": "b", "c": "d", "e": "", "f": "g", "h": ""}),
    ("[a: b, ? c : d, {e: f},]", [{"a": "b"}, {"c": "d"}, {"e": "f"}]),
    ('{? "a" # c\n  :b}', {"a": "b"}),
    # 8.1: block scalars
    ("a: |2- # c\n   b\n", {"a": " b"}),
    ("a: >\n\n  b\n  c\n", {"a": "\nb c\n"}),
    ("a: |\n\n b", {"a": "\nb\n"}),
    ("a: >\n b\n   ", {"a": "b\n  \n"}),
    ("a: |\n   \nb: c\n", {"a": "", "b": "c"}),
    # 8.2: block collections
    ("? a\n: - b\n  - c\n", {"a": ["b", "c"]}),
    ("- - a\n  - b: c\n    d:\n    - e\n", [["a", {"b": "c", "d": ["e"]}]]),
    # 9: documents
    ("%YAML 1.2 # c\n---\na: b\n...\n# c\n", {"a": "b"}),
    ("--- # c\n- a\n", ["a"]),
    ("\ufeffa: b\r\nc: d\r", {"a": "b", "c": "d"}),
    ("# nothing\n", None),
]

INVALID = [
    # 5.1, 5.4: characters
    ("a: \x01", "character", 1, 1),
    ("a: \ud800", "character", 1, 4),
    ("a: b\nc: d\x85e: f\n", "character", 2, 5),
    ("a: 'b\u2028c'\n", "character", 1, 6),
    # 6.6: a comment is separated from what is before it
    ('a: "v"# c\n', "syntax", 1, 7),
    ("a: 'v'#\n", "syntax", 1, 7),
    ("a: [b]# c\n", "syntax", 1, 7),
    ("a: {b: c}#\n", "syntax", 1, 10),
    ("a: [b,# c\n  d]\n", "syntax", 1, 7),
    ("a: ['b'# c\n  ]\n", "syntax", 1, 8),
    ("a: [# c\n  b]\n", "syntax", 1, 5),
    ("a: |# c\n  b\n", "syntax", 1, 4),
    ("a: >2# c\n  b\n", "syntax", 1, 4),
    # 6.1, 7.3, 7.4: what continues a value is indented more than the value's parent, with spaces
    ("a: [b,\nc]\n", "syntax", 2, 1),
    ("a: [\n  b\n]\n", "syntax", 3, 1),
    ("a: {\n\tb: c}\n", "syntax", 2, 1),
    ("- a: [b,\n  c]\n", "syntax", 2, 1),
    ("a:\n  b: [\n  c]\n", "syntax", 3, 1),
    ('a: "b\nc"\n', "syntax", 2, 1),
    ("a: 'b\n\tc'\n", "syntax", 2, 1),
    ("a: ['b\n# c']\n", "syntax", 2, 1),
    ('a: "b\\\n"', "syntax", 2, 1),
    ("a:\n\t- b\n", "syntax", 2, 1),
    ("-\t- b\n", "syntax", 1, 2),
    # 5.3, 7.3.3: an indicator is no word
    ("[-]", "syntax", 1, 2),
    ("[-, b]", "syntax", 1, 2),
    ("a: [b, -]\n", "syntax", 1, 8),
    ("[- b]", "syntax", 1, 2),
    ("[[-]]", "syntax", 1, 3),
    ("[?]", "syntax", 1, None),
    ("{?}", "syntax", 1, 2),
    ("a: @b\n", "syntax", 1, 4),
    # libyaml reads these as something else than YAML 1.2.2 does
    ("{ ?foo: bar }", "syntax", 1, 3),
    ("[?foo]", "syntax", 1, 2),
    ('{?"a": b}', "syntax", 1, 2),
    ("[:a]", "syntax", 1, 2),
    ("{a: :b}", "syntax", 1, 5),
    # 7.3.1: escapes
    ('a: "\\q"\n', "syntax", 1, 5),
    ('a: "\\\'"\n', "syntax", 1, None),
    # 7.4, 8.2: keys and separators
    ('a: ["b":c, "d"e]\n', "syntax", 1, None),
    ("[a b: c\n : d]", "syntax", 2, None),
    ("[a, , b]", "syntax", 1, 5),
    ('"a":b\n', "syntax", 1, None),
    ("a: b: c\n", "syntax", 1, 5),
    ('"a\n b": c\n', "syntax", 2, None),
    # 7.3.1: an escaped line break before a blank line, which parsers read in two ways
    ('a: "b\\\n\n  c"\n', "syntax", 1, 4),
    # 7.3: a blank line is not made of tabs
    ('a: "b\n\t\n  c"\n', "syntax", 2, 1),
    # 7.4: libyaml reads one pair here, and there are two
    ("[? , : ]", "syntax", 1, 2),
    # 8.1: leading blank lines of a block scalar
    ("a: |\n    \n  b\n", "syntax", 1, 4),
    ("a: >\n \n  \n   \n # c\n", "syntax", 1, 4),
    ("a:\n|\n b\n", "syntax", 2, 1),
    # 9: documents
    ("%YAML 1.2#c\n---\na: b\n", "syntax", 1, None),
    ("%YAML 1.2 x\n---\na: b\n", "syntax", 1, None),
    ("--- a: b\n", "syntax", 1, None),
    ("a: b\n... c\n", "syntax", 2, 5),
    ("a: b\n---\n", "document", 2, 1),
    # what is valid, and never read
    ("a: &b c\n", "anchor", 1, 4),
    ("a: [*b]\n", "alias", 1, 5),
    ("a: !!str\n  >1# c\n", "tag", 1, 4),
    ("- !b {}\n", "tag", 1, 3),
    ("<<: {a: b}\n", "merge_key", 1, 1),
    ("{a: b}: c\n", "bad_key", 1, 1),
    ("{[a]: b}", "bad_key", 1, 2),
    ("[" * 10_000, "depth", 1, 10),
    ("[a: " * 10_000, "depth", 1, None),
    ("- a\n" * 60, "nodes", 60, 3),
]


@pytest.mark.parametrize(("text", "expected"), VALID)
def test_valid_yaml_is_read(text: str, expected: Any) -> None:
    assert value(read(text)) == expected


@pytest.mark.parametrize(("text", "kind", "line", "column"), INVALID)
def test_what_has_no_single_meaning_is_refused(text: str, kind: str, line: int, column: int | None) -> None:
    with pytest.raises(StrictYAMLRefused) as caught:
        read(text)
    assert (caught.value.kind, caught.value.line) == (kind, line)
    assert column is None or caught.value.column == column


def test_a_refusal_says_all_that_its_message_needs() -> None:
    with pytest.raises(StrictYAMLRefused) as caught:
        read("a: 1\nb: {c: 1,\n  c: 2}\n", first_line=10)
    assert (caught.value.kind, caught.value.line, caught.value.column) == ("duplicate_key", 12, 3)
    assert (caught.value.detail, caught.value.first_line) == ("c", 11)
    for text, detail in (("a: " + "[" * 9, "8"), ("- a\n" * 60, "60")):
        with pytest.raises(StrictYAMLRefused) as caught:
            read(text)
        assert caught.value.detail == detail


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("---\na: b\n", "document"),
        ("a: b\n---\nc: d\n", "document"),
        ("a: b\n...\n", "document_end"),
        ("%YAML 1.2\n---\na: b\n", "directive"),
        ("%TAG ! tag:x,2000:\n---\na: b\n", "directive"),
    ],
)
def test_a_bare_document_has_no_markers(text: str, kind: str) -> None:
    with pytest.raises(StrictYAMLRefused) as caught:
        read(text, bare=True)
    assert caught.value.kind == kind


def test_a_plain_scalar_that_has_no_value_is_refused_at_its_place() -> None:
    with pytest.raises(StrictYAMLRefused) as caught:
        read_yaml("a: 'x'\nb: x\n", plain=int, max_depth=8, max_nodes=8)
    assert (caught.value.kind, caught.value.line, caught.value.column) == ("scalar", 1, 1)
    root = read_yaml("1: 'x'\n2: 3\n", plain=int, max_depth=8, max_nodes=8)
    assert root is not None
    assert [(key.value, item.value) for key, item in root.value.values()] == [(1, "x"), (2, 3)]


def test_nodes_know_their_place_and_style() -> None:
    root = read("a: |\n  b\nc: [d,\n    'e']\n", first_line=3)
    assert root is not None
    (_, block), (key, flow) = root.value.values()
    assert (block.style, block.line, block.column, block.lines) == ("|", 3, 4, 3)
    assert (key.text, key.style, key.line, key.column, key.lines) == ("c", "", 5, 1, 1)
    assert (root.style, flow.style, flow.value[1].style) == ("", "[", "'")
    assert (flow.value[1].line, flow.value[1].column) == (6, 5)


@pytest.mark.parametrize("text", [text for text, kind, *_ in INVALID if kind in ("syntax", "character")])
def test_both_languages_refuse_invalid_yaml(text: str) -> None:
    found = read_document("t.yaml", text.encode("utf-8", "surrogatepass"))
    assert isinstance(found, Diagnostic) and found.code == ("NOT_UTF8" if "\ud800" in text else "YAML_SYNTAX")
    with pytest.raises(SourceRefused) as caught:
        read_mapping(text)
    with pytest.raises(StrictYAMLRefused) as bare:
        read(text, bare=True)
    markers = {"document", "document_end", "directive"}
    assert caught.value.problem.rule == ("TG115" if bare.value.kind in markers else "TG110")


PIECES = [
    "a",
    "b: ",
    ": ",
    "- ",
    "? ",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "#",
    " ",
    "\n",
    "\n  ",
    "\t",
    "|",
    ">",
    "-",
    ":",
    "\\",
]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_is_accepted_means_the_same_when_it_is_rendered_and_read_again(text: str) -> None:
    """Rendered as JSON, which has one meaning; and after a comment and a blank line."""
    try:
        meant = value(read(text))
    except StrictYAMLRefused:
        return
    assert value(read(json.dumps(meant, ensure_ascii=False))) == (meant if meant is not None else "null")
    assert value(read(f"# c\n\n{text}")) == meant


TREES = st.recursive(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029\ufeff", exclude_categories=["Cc", "Cn"]),
        max_size=5,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:-#? ", max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(TREES, st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}]))
def test_json_is_read_as_what_it_is(tree: Any, form: Any) -> None:
    text = json.dumps(tree, ensure_ascii=False, **form)
    assert value(read_yaml(text, plain=str, max_depth=99, max_nodes=999)) == tree
