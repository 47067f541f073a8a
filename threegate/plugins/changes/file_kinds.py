"""What a file is by its name: program source, data that nothing runs, or neither.

Invariant: closed lists of endings, names and folders; what is in none of them has no kind. Names are lower case
(`collision_key`). A file of settings has the kind of the folder that it is in: among sources, tests and documents it
is data, elsewhere a tool may load it. Source: docs/spec/8-agents.md, "Files that run later".
"""

from __future__ import annotations

import re
from typing import Final, Literal

Kind = Literal["source", "inert"]
"""``source`` runs when someone runs the project (a page when it is opened, a test when it is run), ``inert`` never."""

SOURCE: Final = frozenset(
    """stub tag snap ls cfm cfml ly ps re2c py pyi pyx pxd pxi js mjs cjs jsx ts mts cts tsx vue svelte astro
    coffee litcoffee mdx rb erb haml slim php phtml inc twig pl pm pod t lua luau r rmd qmd jl go rs c h cc cpp
    cxx hpp hh hxx ipp inl tpp tcc ino cu cuh m mm swift java kt scala groovy clj cljs cljc cs vb fs fsi xaml
    razor cshtml vbhtml aspx ascx dart ex exs eex heex leex erl hrl hs lhs hsc purs elm ml mli mll mly re rei
    idr agda lean v sv svh vhd vhdl zig nim d di pas dpr f f77 f90 f95 f03 f08 for ada adb ads cob cbl asm s
    nasm lisp el scm ss rkt sld tcl vim fnl janet wren gd gdshader glsl vert frag geom comp hlsl wgsl metal
    shader proto thrift avsc graphql gql fbs capnp smithy wit wat idl webidl sol vy move cairo circom html htm
    xhtml jsp jspx mustache hbs handlebars ejs pug jade njk liquid jinja jinja2 j2 tmpl tpl gotmpl gohtml css
    scss sass less styl pcss tex sty cls ltx dtx bst typ ipynb feature robot prql dbml y l yy ll g4 peg pest
    lalrpop rl jison xsl xslt xsd dtd rng rnc wsdl ui qml glade xib storyboard bas frm abap trigger apex hx st
    cr hack sas gleam odin pony raku rakumod stories""".split()
)
"""Endings of languages, of templates and of pages."""
INERT: Final = frozenset(
    """sublime-syntax tmlanguage mediawiki wiki creole txt text md markdown rst adoc asciidoc textile org csv tsv
    jsonl ndjson geojson topojson svg png jpg jpeg gif webp avif ico bmp tif tiff icns psd xcf woff woff2 ttf
    otf eot mp3 wav ogg oga opus flac m4a mp4 m4v webm ogv mov avi mkv pdf docx odt ods odp odg xlsx pptx rtf
    epub po pot mo xliff xlf strings stringsdict arb srt vtt log bib ris ics vcf eml mbox asc sig pub crt cer
    pem gpx kml wkt fasta fastq parquet arrow feather avro map lcov tfevents ftl""".split()
)
"""Endings of prose, tables, pictures, sounds, fonts and translations."""
SETTINGS: Final = frozenset("json json5 jsonc yaml yml toml ini cfg conf config properties xml edn".split())
"""Endings of data that is as often the settings of a tool."""
_AMONG_DATA: Final = frozenset(
    """src source sources lib test tests testing spec specs __tests__ fixtures __fixtures__ fixture testdata
    test_data test-data test-fixtures mocks __mocks__ snapshots __snapshots__ cassettes golden goldens corpus
    testcases test-cases dataset datasets locale locales lang langs language languages i18n l10n intl
    translations messages assets static public res resources doc docs documentation example examples sample
    samples demo demos schema schemas content contents images img media fonts icons benchmarks benches""".split()
)
"""Folders of sources, of tests and of documents: what no table names is read there by the program alone."""
_AMONG_TESTS: Final = frozenset(
    """test tests testing spec specs __tests__ fixtures __fixtures__ fixture testdata test_data test-data
    test-fixtures snapshots __snapshots__ cassettes golden goldens corpus testcases test-cases""".split()
)
"""Folders in which a file of any ending is what tests read, or a test."""
_NAMES: Final = re.compile(
    r"(?:(?:un)?licen[sc]es?|copying|copyright|notices?|patents|read_?me|authors|contributors|contributing|maintainers"
    r"|owners|codeowners|credits|thanks|acknowledge?ments|news|changes|changelog|history|release_?notes|todo|hacking|faq"
    r"|bugs|security|governance|roadmap|version|cname|py\.typed)(?:[-_][a-z0-9_-]{1,20})?"
    r"(?:\.(?:lesser|apache|mit|bsd|gpl|lgpl|agpl|mpl|cc0|cn|de|en|es|fr|it|ja|jp|ko|nl|pt|ru|uk|zh))?"
)
"""Documents that have no ending, or that of a licence or language."""
_QUIET_DOTS: Final = re.compile(
    r"\.(?:[a-z]+ignore|ignore|gitkeep|keep|mailmap|git-blame-ignore-revs|nojekyll|placeholder)"
)
_QUIET_FOLDERS: Final = re.compile(
    r"(?:.*/)?(?:\.github/(?:(?:issue|pull_request|discussion)_template/|[^/]+\.(?:md|markdown|rst|txt)$"
    r"|funding\.yml$|codeowners$)|\.changeset/[^/]+\.md$|\.well-known/)"
)
"""Forms, documents and texts in folders that are otherwise the settings of a tool."""
_TEMPLATES: Final = (".in", ".example", ".sample", ".dist")
"""Endings of what another file is made from; it has the kind of that file."""
_MANUAL: Final = re.compile(r"[1-9][a-z]{0,2}")
"""The ending of a manual page is its section."""


def ending_of(base: str) -> str:
    """What is behind the last dot of a file's name, without a dot that the name begins with."""
    return base.rpartition(".")[2] if "." in base.lstrip(".") else ""


def kind_of(name: str) -> Kind | None:
    """What a path in lower case is; None where nothing says it, and for the settings of tools."""
    *folders, base = name.split("/")
    if _QUIET_FOLDERS.match(name) or _QUIET_DOTS.fullmatch(base):
        return "inert"
    if base.startswith(".") or any(folder.startswith(".") for folder in folders):
        return None
    base = base.removesuffix(next(filter(base.endswith, _TEMPLATES), ""))
    ending = ending_of(base)
    if ending in SOURCE:
        return "source"
    if ending in INERT or _MANUAL.fullmatch(ending) or _NAMES.fullmatch(base):
        return "inert"
    if ending and not _AMONG_TESTS.isdisjoint(folders):
        return "inert"
    if ending in SETTINGS and not _AMONG_DATA.isdisjoint(folders):
        return "inert"
    return None
