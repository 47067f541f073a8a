"""How many decisions a week of 200 drafts takes, how long they are to read, and whether a near miss slips through.

    python -m bench.week

The drafts come from `recipe.toml` and pass gate 1; grants and groups are decided by ThreeGate's own functions. What an
operator reads is the short screen of each decision, as it is printed at 80 columns. Aims: 20 decisions, 10 minutes, no
near miss covered. Besides, an agent's change sets are read, some with a planted line (`change_sets.py`); each is a
decision of its own.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.week.change_sets import ReadChange, change_sets
from bench.week.week import SETTINGS, Decision, Draft, drafts_of, near_misses, read_recipe, replay
from threegate.approval.shown.escaped_lines import render_sections
from threegate.approval.shown.request_sections import Beside, request_sections, shown_request
from threegate.core.screen_parts import Fact, Field, Item, Listing, Note, Section
from threegate.plugins.grants.giving import what_may_differ
from threegate.review.group_shape import differing, outliers_first, shape_of, values_of

_GUTTER = re.compile(r"^ +[0-9]+ \| ")
AIM_DECISIONS = 20
AIM_MINUTES = 10


def words(decision: Decision) -> int:
    """Words on the screen of a decision: what has a letter or a digit, without the numbers before lines of code."""
    lines = (_GUTTER.sub("", line) for line in render_sections(_sections(decision)))
    return sum(any(map(str.isalnum, word)) for line in lines for word in line.split())


def _sections(decision: Decision) -> list[Section]:
    first = decision.drafts[0]
    sections = _screen(first)
    if decision.what == "grant":
        runs = [section for section in sections if section.title == "WHAT RUNS"]
        return [what_may_differ(first.job, decision.widened), *runs]
    if len(decision.drafts) == 1:
        return sections
    return [
        _head(decision),
        *sections,
        Section("WHAT DIFFERS: EVERY DRAFT, OUTLIERS FIRST", tuple(_table(decision.drafts))),
    ]


def _head(decision: Decision) -> Section:
    """The first lines of a group, as review/group_screen.py has them."""
    number = len(decision.drafts)
    items = (
        Fact("you sign", f"{number} statements by one signature; each lets one of the drafts run once"),
        Fact("risk", "low, of each; 1 to sign each"),
        Note("below: one draft in full, then what differs; all else is the same in every one"),
    )
    return Section(f"GROUP: {number} DRAFTS, ONE DECISION", items)


def _table(drafts: Sequence[Draft]) -> Iterator[Item]:
    """The table of a group, as review/group_screen.py has it: every value that differs, whole, for each draft."""
    rows = [values_of(draft.request) for draft in drafts]
    columns = differing(rows)
    named = [[row[at] for at in columns] for row in rows]
    for at, far in outliers_first(named):
        stands_out = f", stands out by {' and '.join(far)}" if far else ""
        yield Note(f"draft {at + 1} of {len(drafts)}, created {drafts[at].came:%Y-%m-%dT%H:%M:%SZ}{stands_out}:")
        yield Field("file", drafts[at].request.file_name)
        yield from (Field(value.label, value.text) for value in named[at])


def _screen(draft: Draft) -> list[Section]:
    shown = {
        name: (Listing(f"{len(data)} bytes, all of them:", data.decode(), name),) for name, data in draft.inputs.items()
    }
    card = (
        Fact("differs", "no request of this shape was approved before"),
        Fact("can run", "yes, the gates would let it pass now"),
    )
    view = shown_request(draft.request, draft.job, SETTINGS, operator="operator", owner=None)
    return request_sections(view, Beside(card=card, inputs=shown, digests=(Fact("draft", draft.request.sha256),)))


def _tell_changes(read: Sequence[ReadChange], recipe: Mapping[str, Any]) -> None:
    """What the change sets add, which no grant and no group covers."""
    total, planted = sum(one.words for one in read), [one for one in read if one.planted]
    paths, covered = sum(one.paths for one in read), sum(one.covered for one in read)
    print(
        f"\nchange sets        {len(read):>8}{total:>7}{total / recipe['words_a_minute']:>9.1f}\n"
        f"of {paths} paths; covered by a grant or a group: {covered}\n"
        f"planted lines: {len(planted)}, with a mark: {sum(one.marked for one in planted)}; without: "
        f"{', '.join(one.planted for one in planted if not one.marked) or 'none'}"
    )


def main() -> int:
    """Print the table; 1 when an aim is missed."""
    recipe = read_recipe()
    drafts = drafts_of(recipe)
    near = near_misses(recipe, drafts)
    print(f"{len(drafts)} drafts of {len(recipe['work'])} kinds, {len(near)} near misses\n")
    print("decided on        decisions  words  minutes")
    for label, shape, grants in (
        ("one by one", None, False),
        ("with groups", shape_of, False),
        ("with grants", None, True),
        ("with both", shape_of, True),
    ):
        done = replay(recipe, drafts, shape, grants=grants)
        read = sum(map(words, done.decisions))
        minutes = read / recipe["words_a_minute"]
        print(f"{label:<18}{len(done.decisions):>9}{read:>7}{minutes:>9.1f}")
    kinds = Counter(decision.what for decision in done.decisions)
    print(
        f"\nwith both: {', '.join(f'{number} {what}' for what, number in kinds.items())}; {len(done.granted)} ran "
        "under a grant"
    )
    covered = [miss for miss in near if replay(recipe, [*drafts, miss], shape_of).covered_near]
    print(f"near misses covered by a grant or a group: {len(covered)} of {len(near)}")
    for miss in covered:
        print(f"  {miss.kind}: {miss.near}")
    _tell_changes(change_sets(recipe), recipe)
    missed = len(done.decisions) > AIM_DECISIONS or minutes > AIM_MINUTES or bool(covered)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
