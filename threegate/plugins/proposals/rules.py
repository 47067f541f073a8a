"""The semantic rules of docs/spec/5-proposals.md, and the resulting verdict.

Invariant: `judge_proposal` is pure except for the links that it resolves through `project`; it collects
everything that is wrong, and rejects what it does not understand. `reject` takes precedence over `block`,
`block` over `approval`, `approval` over `auto`.
"""

from __future__ import annotations

import json
import re
from typing import Final

from threegate.core import limits
from threegate.core.settings import Settings
from threegate.plugins.changes.project import Project
from threegate.plugins.changes.project_paths import PathBlocked, ProjectPath, read_path
from threegate.plugins.proposals.argv import judge_argv, judge_command
from threegate.plugins.proposals.dangerous_words import names_secret, says_submit, types_secret
from threegate.plugins.proposals.form import FormProblem, Proposal, check_arguments, check_form, read_json, sound_part
from threegate.plugins.proposals.proposal_verdict import AllowedProposal, ProposalVerdict
from threegate.plugins.proposals.tools import RISKS, Lane, ProposalRisk, VerdictName, strictest
from threegate.plugins.proposals.urls import URL, URLError, reach, read_url
from threegate.request.characters import has_hidden

_REPOSITORY: Final = re.compile(r"([A-Za-z0-9_.-]{1,100})/([A-Za-z0-9_.-]{1,100})", re.ASCII)
_GLOB: Final = re.compile(r"[*?\[\]]")
_FOLDER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}(?:/[A-Za-z0-9._-]{1,128}){0,6}", re.ASCII)
_BARE_SELECTORS: Final = frozenset({"*", "a", "button", "input"})
_HIDDEN_SELECTORS: Final = (":hidden", "[hidden", "display:none", "visibility:hidden")
_WRITING: Final = frozenset({"file.write_safe", "project.cleanup_safe"})
_WHOLE_PROJECT: Final = read_path(".")
_HIGH: Final = RISKS.index("high")


class _Judging:
    """The findings so far about one proposal."""

    def __init__(self, proposal: Proposal, settings: Settings, links: Project | None) -> None:
        self.proposal, self.settings, self.links = proposal, settings, links
        self.tool = tool = proposal.tool
        self.args = proposal.args
        self.risk: ProposalRisk = proposal.risk or tool.risk
        self.lane: Lane = tool.lane
        self.rejected: list[FormProblem] = []
        self.blocked: list[FormProblem] = []
        self.reasons: list[str] = []
        self.raised = False
        self.paths: dict[str, ProjectPath] = {}
        self.urls: dict[str, URL] = {}

    @property
    def declared(self) -> ProposalRisk:
        """The risk that the agent said."""
        return self.proposal.risk or "low"

    def text(self, name: str) -> str:
        """A text argument, empty if it is missing."""
        text: str = self.args.get(name, "")
        return text

    def reject(self, name: str, code: str, message: str) -> None:
        """Not a valid proposal."""
        self.rejected.append(FormProblem(name, code, message))

    def block(self, name: str, code: str, message: str) -> None:
        """Valid, and never allowed."""
        self.blocked.append(FormProblem(name, code, message))

    def ask(self, reason: str, risk: ProposalRisk) -> None:
        """A human must look, at this risk or higher."""
        self.raised = True
        self.risk = strictest(self.risk, risk)
        self.reasons.append(reason)


def judge_proposal(data: bytes, *, settings: Settings, links: Project | None = None) -> ProposalVerdict:
    """The verdict on the bytes of a proposal. Never raises because of their content.

    `links` resolves paths in the project; without it paths are judged only by their spelling.
    """
    value, unreadable = read_json(data)
    if unreadable is not None:
        return ProposalVerdict("reject", None, (unreadable,), (), "nothing")
    proposal, problems = check_form(value)
    if proposal is None:
        part = sound_part(value, problems)
        if part is not None:
            told = {problem.path for problem in problems}
            further = judge_form(part, settings=settings, links=links).errors
            problems += [item for item in further if item.path not in told and _stands_there(item, part)]
        return ProposalVerdict("reject", None, tuple(problems), (), "nothing")
    return judge_form(proposal, settings=settings, links=links)


def _stands_there(problem: FormProblem, part: Proposal) -> bool:
    """Whether a problem is about something present in the proposal (missing parts were already reported)."""
    steps = problem.path.split("/")
    return steps[1] != "args" or (len(steps) > 2 and steps[2] in part.args)


def judge_form(proposal: Proposal, *, settings: Settings, links: Project | None = None) -> ProposalVerdict:
    """The verdict on a proposal whose form is valid: only the semantic rules."""
    at = _Judging(proposal, settings, links)
    _check_blanks(at)
    _check_risk(at)
    _check_paths(at)
    if "url" in at.tool.fields:
        _check_url(at)
    if "repo" in at.tool.fields:
        _check_repository(at)
    if at.tool.name in _SPECIAL:
        _SPECIAL[at.tool.name](at)
    return _conclude(at)


def _conclude(at: _Judging) -> ProposalVerdict:
    tool = at.tool
    if at.rejected or at.blocked:
        verdict: VerdictName = "reject" if at.rejected else "block"
        errors = (*at.rejected, *at.blocked)
        return ProposalVerdict(verdict, at.risk, errors, tuple(at.reasons), "nothing", at.proposal)
    verdict, why = tool.verdict, "reads what it may read; nothing runs without an approval"
    # An agent that says itself that it is dangerous is believed.
    if verdict == "auto" and tool.lane != "verdict only" and RISKS.index(at.declared) > RISKS.index(tool.risk):
        at.ask(f"the proposal declares {at.declared} risk", at.declared)
    if verdict == "approval" or at.raised:
        verdict, why = "approval", "is drafted for a human's approval"
        if RISKS.index(at.risk) < RISKS.index(tool.risk):
            at.ask(f"{tool.name} is never below {tool.risk} risk", tool.risk)
    reasons = (f"{tool.name} {why}", *at.reasons)
    return AllowedProposal(verdict, at.risk, (), reasons, at.lane, at.proposal, at.paths, at.urls)


def _check_blanks(at: _Judging) -> None:
    task = at.proposal.said("task")
    if task is not None and not _says(task):
        at.reject("/task", "blank", "must say something")
    for name, field in at.tool.fields.items():
        # Only an open tool's argument can be another type than text here, and then it is refused for that.
        if field.not_blank and isinstance(at.args.get(name), str) and not _says(at.text(name)):
            at.reject(f"/args/{name}", "blank", "must say something")


def _says(text: str) -> bool:
    """Whether a text has visible characters."""
    return bool(text.strip()) and (text.isascii() or any(not char.isspace() and not has_hidden(char) for char in text))


def _check_risk(at: _Judging) -> None:
    tool = at.tool
    if RISKS.index(at.declared) < RISKS.index(tool.least or "low"):
        at.reject("/risk", "risk_too_low", f"{tool.name} needs a declared risk of at least {tool.least}")


def _check_paths(at: _Judging) -> None:
    writing = at.tool.name in _WRITING
    for name in (name for name, field in at.tool.fields.items() if field.path):
        path = _path(at, f"/args/{name}", at.text(name), writing=writing)
        if path is not None:
            at.paths[name] = path
            if path.protected:
                at.ask("the path is protected", "high")


def _path(at: _Judging, name: str, text: str, *, writing: bool) -> ProjectPath | None:
    try:
        path = read_path(text, writing=writing) if text else _WHOLE_PROJECT
        if at.links is not None:
            path = at.links.resolve(path, writing=writing)
    except PathBlocked as error:
        at.block(name, error.code, str(error))
        return None
    return path


def _check_url(at: _Judging) -> None:
    try:
        url = at.urls["url"] = read_url(at.text("url"))
    except URLError as error:
        at.reject("/args/url", error.code, str(error))
        return
    where = reach(url)
    if where == "metadata":
        at.block("/args/url", "url_metadata", "the host hands out a cloud's secrets; it is never asked")
    elif where == "private":
        if at.args.get("allowPrivate") is not True:
            at.block("/args/url", "url_private", "the host is local or private; only public hosts are asked")
        elif RISKS.index(at.declared) < _HIGH:
            at.block("/args/allowPrivate", "url_private", "a private host needs a declared risk of high")
        else:
            at.ask("the host is local or private", "high")
            at.lane = "dry-run record"
            at.reasons.append("no allowlist takes a private host: what would be asked is only recorded")
    elif where == "address":
        at.ask("the host is an address and no name", "high")
        at.lane = "dry-run record"
        at.reasons.append("no allowlist takes an address: what would be asked is only recorded")
    elif where == "unnameable":
        at.block("/args/url", "url_name", "the host's name has a form that no allowlist takes")


def _check_repository(at: _Judging) -> None:
    match = _REPOSITORY.fullmatch(at.text("repo"))
    if match is None or {match[1], match[2]} & {".", ".."}:
        at.reject("/args/repo", "repository", "must be owner/name")


def _check_dry_run(at: _Judging) -> None:
    argv, command = at.args.get("argv"), at.text("command")
    if argv is None and not command.strip():
        at.reject("/args", "missing", "shell.dry_run needs argv or command")
        return
    programs = at.settings.request.programs
    found = judge_argv(argv, programs=programs) if argv is not None else []
    if command.strip():
        found += judge_command(command, programs=programs)
    # Reasons, not errors: nothing of it will run.
    for item in found:
        at.reasons.append(f"{'would be blocked' if item.never else f'would be {item.risk}'}: {item.message}")
    if not found:
        at.reasons.append("would be drafted for a human's approval")


def _check_execute(at: _Judging) -> None:
    cwd = at.paths.get("cwd")
    if cwd is not None and cwd.parts and not _FOLDER.fullmatch(cwd.text):
        at.block("/args/cwd", "cwd", "a request can only start in folders of plain names (A-Z a-z 0-9 . _ -)")
    for item in judge_argv(at.args.get("argv", ()), programs=at.settings.request.programs):
        if item.never:
            at.block("/args/argv", item.code, item.message)
        else:
            at.ask(item.message, item.risk)


def _check_cleanup(at: _Judging) -> None:
    for index, entry in enumerate(at.args.get("include", ())):
        if not _says(entry):
            at.reject(f"/args/include/{index}", "blank", "must say something")
            continue
        if _GLOB.search(entry):
            at.reject(f"/args/include/{index}", "glob", "globs (* ? []) are not supported; name each path")
            continue
        path = _path(at, f"/args/include/{index}", entry, writing=True)
        if path is not None and path.protected:
            at.reasons.append(f"entry {index} is protected and stays")


def _check_install(at: _Judging) -> None:
    at.block("/tool", "installs", "installing is forbidden; no request may do it")


def _check_click(at: _Judging) -> None:
    selector = "".join(at.text("selector").lower().split())
    if selector in _BARE_SELECTORS or any(form in selector for form in _HIDDEN_SELECTORS):
        at.reject("/args/selector", "selector", "must name one visible element, not a kind of element")
    said = " ".join(at.text(name) for name in ("intent", "label", "purpose"))
    if says_submit(said):
        if RISKS.index(at.declared) < _HIGH:
            at.reject("/risk", "risk_too_low", "a click that submits, pays or destroys needs risk high")
        else:
            at.ask("the click submits, pays or destroys", "high")


def _check_type(at: _Judging) -> None:
    for name in ("selector", "field", "label", "name", "placeholder", "purpose"):
        if name in at.args and names_secret(at.text(name)):
            at.block(f"/args/{name}", "sensitive", "secrets are typed by people, never by proposals")
    if types_secret(at.text("text")):
        at.block("/args/text", "sensitive", "the text looks like a secret; proposals never type one")


def _check_delegate(at: _Judging) -> None:
    """What we know of a delegation is checked as strictly as other tools' arguments; all else a person must read."""
    known = {key: item for key, item in at.args.items() if key in at.tool.fields}
    at.args = {**at.args, **check_arguments(at.tool, known, at.rejected)}
    at.proposal = at.proposal._replace(args=at.args)
    # As in args.json, which has the arguments twice: that file must fit on the screen.
    if len(json.dumps([[[at.args]]], indent=1)) > limits.PROPOSAL_DELEGATED_BYTES:
        at.reject("/args", "length", f"more than {limits.PROPOSAL_DELEGATED_BYTES} bytes cannot be shown; shorten them")
    elif len(known) < len(at.args):
        at.reasons.append("it has arguments that ThreeGate does not know: read all of args.json")


_SPECIAL: Final = {
    "shell.dry_run": _check_dry_run,
    "shell.execute_approved": _check_execute,
    "project.cleanup_safe": _check_cleanup,
    "skill.install_guarded": _check_install,
    "browser.click_proposed": _check_click,
    "browser.type_proposed": _check_type,
    "subagent.delegate": _check_delegate,
}
