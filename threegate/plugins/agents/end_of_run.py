"""What a person sees and decides at their terminal once an agent has ended: what differs, one question, the review.

Invariant: nothing is asked before every process of the run is gone, the terminal is reset, and nobody has typed for a
while (`terminal.settled`). Only a word that is made after that opens the review, so neither what was typed before nor
what the agent drew is an answer. In the review nothing asks for a passphrase, because an agent could draw an end of
itself: a key that needs one signs in another terminal. Off a terminal nothing is asked.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from select import select
from typing import Final

from threegate.acts.signing_key import Acting
from threegate.approval.signature import never_asking
from threegate.cli import invocation
from threegate.cli.review_command import review_drafts
from threegate.cli.signing_screens import tell_outcomes
from threegate.core import limits
from threegate.core.errors import ThreeGateError
from threegate.core.own_daemon import OwnDaemon, starts_by_itself
from threegate.launch.context import Context, open_context
from threegate.plugins.agents.agent_commits import AgentCommit, AgentCommits
from threegate.plugins.agents.branch_files import read_branch
from threegate.plugins.agents.carried_commits import carry_commits
from threegate.plugins.agents.findings_question import read_line
from threegate.plugins.agents.launcher import Finished
from threegate.plugins.agents.propose import draft_changes
from threegate.plugins.agents.terminal import settled
from threegate.plugins.agents.work_changes import keep_bases, was_proposed
from threegate.plugins.changes.change_draft import left_out_lines
from threegate.plugins.changes.make import MadeChangeSet

_ELSEWHERE: Final = "read and sign it in another terminal: threegate review"
_CONSONANTS, _VOWELS, _SYLLABLES = "bdfgklmnprstvz", "aeiou", 3


class EndOfRun:
    """The end of one run. `report` is called once it has ended, `review` once the trail has its end."""

    def __init__(
        self,
        context: Context,
        *,
        propose: str,
        stopped: Callable[[], int],
        say: Callable[[str], None],
        daemon: OwnDaemon,
        acting: Callable[[], Acting],
    ) -> None:
        """`propose` is ask, always or never. `acting`: who would sign here; raises ThreeGateError if nobody can."""
        self._context, self._propose, self._stopped, self._say = context, propose, stopped, say
        self._daemon, self._find_acting = daemon, acting
        self._acting: Acting | None = None
        """Who signs in the review; None: there is none."""
        self._word = ""
        """What opens the review; empty: it is not offered."""
        self._asked = self._opened = False
        """Whether a question had the word, and whether the person typed it."""

    # ---- what differs

    def report(self, finished: Finished) -> str | None:
        """Report how a run ended and, if wanted, draft its changes, and those on branches that are not checked out;
        return the digest of the change set of its files.
        """
        changes = finished.changes
        if changes is not None and not self._stopped() and on_terminal():
            if settled(self._stopped):
                self._offer()
            elif self._propose == "ask":
                self._propose = "always"  # somebody types and types: nothing is lost by a draft
        drafted = self._report_files(finished)
        for name, tip in finished.commits.tips[: limits.COMMIT_BRANCHES]:
            self._report_branch(finished, (name, tip))
        return drafted

    def _offer(self) -> None:
        """Offer the review if the key at hand signs without a passphrase."""
        try:
            acting = self._find_acting()
        except ThreeGateError:
            return
        if acting.asks == "passphrase":
            self._say("your key asks for a passphrase, and none is asked for on a terminal that an agent had")
        else:
            self._acting, self._word = acting, new_word()

    def _report_files(self, finished: Finished) -> str | None:
        """All output goes to stderr, because stdout belongs to the agent. A run that was stopped asks nothing: who
        stopped it may not be at this terminal.
        """
        facts, run, changes, say = finished.facts, finished.run, finished.changes, self._say
        ended = f"{facts.profile} ended with exit code {finished.exit}"
        if changes is None:
            say(f"{ended}; {finished.problem}")
            return None
        for line in (*left_out_lines(changes), *finished.commits.lines()):
            say(line)
        if not changes.rows:
            say(f"{ended}; nothing in its copy is left to propose")
            return None
        say(f"{ended}; in its copy: {changes_line(changes)}")
        if was_proposed(run, changes.sha256):
            say("it proposed these changes itself; see: threegate status")
            return None
        if not self._wants_draft("Propose these changes?"):
            say(f"its copy is kept; look at it with: threegate agent show {run.run_id}")
            return None
        try:
            name = self._draft(finished, changes, "made", finished.commits)
        except (ThreeGateError, OSError) as error:
            say(f"its changes could not be proposed: {error}")
            return None
        self._say_drafted(f"drafted {name}")
        return changes.sha256

    def _report_branch(self, finished: Finished, branch: tuple[str, AgentCommit]) -> None:
        """Draft, if wanted, what a branch has that the files of the copy do not have."""
        run = finished.run
        name = ascii(branch[0])[1:-1]
        try:
            changes = read_branch(finished.copy, branch[1])
            if not changes.rows or was_proposed(run, changes.sha256):
                return
            self._say(f"on {name}: {changes_line(changes)}")
            if not self._wants_draft(f"Propose what it committed on {name}?"):
                return
            keep_bases(finished.copy, changes.rows)
            commits = carry_commits(finished.copy, finished.commits.of(branch[0]), changes)
            drafted = self._draft(finished, changes, f"committed on {name}", commits)
        except (ThreeGateError, OSError) as error:
            self._say(f"what it committed on {name} could not be proposed: {error}")
            return
        self._say_drafted(f"drafted {drafted} of {name}")

    def _draft(self, finished: Finished, changes: MadeChangeSet, did: str, commits: AgentCommits) -> str:
        """Draft a change set; return the file's name. Raises ThreeGateError, OSError."""
        facts = finished.facts
        return draft_changes(
            self._context.workspace,
            self._context.policy.settings,
            finished.run,
            finished.copy.root,
            changes,
            profile=facts.profile,
            purpose=f"Changes that {facts.profile} {did} in {facts.project or facts.root}",
            commits=commits,
        )

    def _say_drafted(self, drafted: str) -> None:
        here = self._opened or (bool(self._word) and not self._asked)
        self._say(drafted if here else f"{drafted}; {_ELSEWHERE}")

    def _wants_draft(self, question: str) -> bool:
        """Ask the person, until they answer or the run is stopped, which is a no. The word that opens the review is a
        yes as well.
        """
        if self._propose != "ask":
            return self._propose == "always"
        if not self._word or self._asked:
            return self._ask(f"{question} [Y/n] ") in ("", "y", "yes")
        answer = self._ask(f"{question} [Y/n, or {self._word} to read and sign them here] ")
        return self._opens(answer) or answer in ("", "y", "yes")

    def _opens(self, answer: str | None) -> bool:
        self._asked, self._opened = True, answer == self._word
        return self._opened

    def _ask(self, question: str) -> str | None:
        """What the person types; None if there is nobody, or the run was stopped."""
        if self._stopped():
            return None
        invocation.prompt(question, err=True)
        if line := read_line(self._stopped):
            return line.strip().lower()
        if select([], [sys.stderr], [], 0)[1]:
            invocation.say(err=True)  # nobody has ended the line of the question
        return None

    # ---- the review

    def offer_review(self, finished: Finished) -> bool:
        """Whether the person wants to go through the drafts of this run here. Raises OSError."""
        drafts = self._drafts(finished)
        if self._daemon.started or (drafts and not self._word and not starts_by_itself(self._context.workspace)):
            self._say_problem()
        if drafts and self._word and not self._asked:
            what = "its draft" if len(drafts) == 1 else f"its {len(drafts)} drafts"
            self._opens(self._ask(f"Read and sign {what} here? [{self._word}; anything else leaves it for later] "))
            if not self._opened:
                self._say(_ELSEWHERE)
        return bool(drafts) and self._opened and not self._stopped()

    def review(self, finished: Finished) -> None:
        """Go through these drafts, and wait for what is approved. Raises ThreeGateError, OSError, KeyboardInterrupt."""
        assert self._acting is not None
        self._daemon.need()
        self._daemon.problem()  # waits until it runs: the card says whether one does
        context = open_context(self._context.workspace)
        with never_asking():
            approved = review_drafts(
                context,
                self._acting,
                self._drafts(finished),
                daemon_runs=lambda: self._daemon.problem() is None,
            )
        tell_outcomes(context.workspace, approved)

    def _drafts(self, finished: Finished) -> list[Path]:
        return [path for path in self._context.workspace.draft_paths() if path.parent == finished.run.inbox]

    def _say_problem(self) -> None:
        if (problem := self._daemon.problem()) is not None:
            self._say(problem)


def on_terminal() -> bool:
    """Whether a person can read questions and answer them."""
    return invocation.on_terminal() and sys.stderr.isatty()


def new_word() -> str:
    """A word that can be read aloud and typed, and was never shown before."""
    return "".join(secrets.choice(_CONSONANTS) + secrets.choice(_VOWELS) for _ in range(_SYLLABLES))


def changes_line(changes: MadeChangeSet) -> str:
    """How many paths differ in which way, and the first few of them."""
    words = {
        "add": "added",
        "modify": "changed",
        "delete": "deleted",
        "mode": "changed mode",
        "type": "replaced",
    }
    counted = ", ".join(f"{count} {words[kind]}" for kind, count in changes.counts.items() if count)
    paths = [row.path for row in changes.rows]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{counted} ({', '.join(paths[:3])}{more})"
