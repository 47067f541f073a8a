"""`threegate agent`: run an agent in its jail, inspect its runs, and print instructions for an agent that
runs elsewhere.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from select import select
from typing import Annotated

import typer

from threegate.acts.signing_key import acting_operator
from threegate.cli import invocation, tab_completion
from threegate.cli.draft_command import say_next
from threegate.cli.invocation import argument
from threegate.cli.progress import busy
from threegate.cli.signing_options import YesOption, acting_here, ask
from threegate.core.errors import InvalidInput, ThreeGateError
from threegate.core.own_daemon import own_daemon
from threegate.core.workspace import AgentRun, find_workspace
from threegate.judgement.policy import load_policy
from threegate.launch.context import open_context
from threegate.launch.launch_problem import read_operators
from threegate.plugins.agents.agent_connect_command import connect
from threegate.plugins.agents.agent_names import agent_runs, profiles
from threegate.plugins.agents.end_of_run import EndOfRun, changes_line
from threegate.plugins.agents.findings_question import decide_findings
from threegate.plugins.agents.first_run import Made, remove_made, why_not_forget
from threegate.plugins.agents.first_run_question import workspace_for_run
from threegate.plugins.agents.launcher import run_agent
from threegate.plugins.agents.propose import propose_again
from threegate.plugins.agents.reach.asked_hosts import close_host, read_open_hosts
from threegate.plugins.agents.remove_runs import remove_run, run_named
from threegate.plugins.agents.run_plan import Wanted
from threegate.plugins.agents.runs import (
    RunFacts,
    all_runs,
    copy_of,
    end_dead_runs,
    find_run,
    is_alive,
    read_frozen,
    stop_run,
)
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.changes.change_draft import left_out_lines
from threegate.runners.backend import policy_facts
from threegate.setup.agent_prompt import anywhere, place_of, prompt_json, prompt_text
from threegate.setup.init import account as own_account

app = typer.Typer()

app.command()(connect)

RunId = Annotated[str, argument("RUN", "A run's id, or the beginning of it.", agent_runs)]


_Allow = Annotated[
    list[str] | None, typer.Option(metavar="HOST", help="A host it may send anything to; you sign for it.")
]
_Tools = Annotated[
    list[str] | None,
    typer.Option(metavar="SERVER[/TOOL]", help="Tools of added servers it may call, * is any text; default: all."),
]
_Propose = Annotated[
    str, typer.Option(metavar="WHEN", help="Draft changes it made but did not propose: ask, always or never.")
]
_Operator = Annotated[
    str, typer.Option(metavar="NAME", help="With --allow: who signs.", autocompletion=tab_completion.operators)
]
_Key = Annotated[Path | None, typer.Option(metavar="FILE", help="With --allow: the key to sign with.")]


@app.command()
def run(
    profile: Annotated[
        str,
        argument(
            "PROFILE",
            "codex, opencode, gemini, claude, qwen, generic, or a profile from the settings.",
            profiles,
        ),
    ],
    arguments: Annotated[
        list[str] | None, argument("-- ARGS", "Arguments of the agent; for generic, the program to run.")
    ] = None,
    project: Annotated[Path, typer.Option(metavar="DIR", help="The project to give it a copy of.")] = Path(),
    account: Annotated[
        str, typer.Option("--as", metavar="USER", help="When run as root: the account for the agent.")
    ] = "",
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="PATH", help="Let it see a hidden path of the project, or of a folder of --read."
        ),
    ] = None,
    read: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Another folder it may read, such as a toolchain; secrets in it are hidden."),
    ] = None,
    allow: _Allow = None,
    tools: _Tools = None,
    propose: _Propose = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start with an empty home, not the one of its last run here.")
    ] = False,
    operator: _Operator = "",
    key: _Key = None,
) -> None:
    """Run an agent in a jail, on a copy of a project.

    Anything that reaches outside the jail is a request that a person signs.

    Examples: threegate agent run codex --project ~/app
              threegate agent run generic --project ~/app -- sh -c 'echo hello >notes.txt'
    """
    wanted = Wanted(
        profile,
        project,
        tuple(arguments or ()),
        account,
        shown=_paths(with_),
        read=tuple(read or ()),
        hosts=tuple(allow or ()),
        tools=tuple(tools or ()),
        fresh=fresh,
    )
    _start(wanted, propose, operator, key)


@contextmanager
def _stop_signals() -> Iterator[Callable[[], int]]:
    """Whether a signal asked to stop: its number, or 0. A first Ctrl-C also asks; a second one interrupts."""
    # As an exception a first Ctrl-C could be lost: C code that calls Python while modules are loading (the import lock,
    # a schema being built) may swallow it. So it is recorded here, and checked where stopping is safe.
    asked = [0]

    def ask(number: int, frame: object) -> None:
        if asked[0] and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked[0] = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield lambda: asked[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _paths(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(path.rstrip("/") for path in texts or ())


def _start(wanted: Wanted, propose: str, operator: str, key: Path | None) -> None:
    """Run an agent to its end, and exit with its code."""
    if propose not in ("", "ask", "always", "never"):
        raise typer.BadParameter("--propose is ask, always or never")
    workspace = workspace_for_run(wanted.profile, wanted.arguments, wanted.project, wanted.account)
    with ExitStack() as kept:
        with _stop_signals() as stopped:
            context = open_context(workspace)
            if wanted.hosts:
                acting = acting_operator(read_operators(context.workspace), name=operator, key=key)
                wanted = replace(wanted, acting=acting)

            def tell(line: str) -> None:
                # Who stopped the run may not be at this terminal, and it may take nothing more: do not wait for it.
                if not stopped() or select([], [sys.stderr], [], 0)[1]:
                    invocation.warn(line)

            daemon = kept.enter_context(own_daemon(context.workspace, context.policy.settings))
            end = EndOfRun(
                context,
                propose=propose or ("ask" if invocation.on_terminal() else "always"),
                stopped=stopped,
                say=tell,
                daemon=daemon,
                acting=lambda: acting_here(context, operator, key),
            )
            finished = run_agent(
                context,
                wanted,
                actor=own_account(),
                say=tell,
                propose=end.report,
                busy=busy,
                stopped=stopped,
                decide=(lambda new: decide_findings(new, stopped)) if invocation.on_terminal() else None,
                requested=daemon.need,
            )
            opened = end.offer_review(finished)
        if opened:
            end.review(finished)
    raise typer.Exit(finished.exit)


@app.command("continue")
def continue_(
    run: RunId,
    arguments: Annotated[
        list[str] | None, argument("-- ARGS", "Arguments of the agent; for generic, the program to run.")
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="PATH", help="Let it see a hidden path; what the run before could see is named again."
        ),
    ] = None,
    read: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Another folder it may read, such as a toolchain.")
    ] = None,
    allow: _Allow = None,
    tools: _Tools = None,
    propose: _Propose = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Start with an empty home.")] = False,
    operator: _Operator = "",
    key: _Key = None,
) -> None:
    """Continue in the kept copy of a run that ended, as a new run.

    The project as it is now is merged into the copy first; a conflict is marked in the file.

    Examples: threegate agent continue ar-20261122
              threegate agent continue ar-20261122 -- sh -c 'make test'
    """
    context = open_context(invocation.workspace_here(only_own=True))
    end_dead_runs(context, actor=own_account())
    parent, facts = find_run(context.workspace, run)
    as_ = facts.account if os.geteuid() == 0 else ""
    wanted = Wanted(
        facts.profile,
        Path(facts.root),
        tuple(arguments or ()),
        as_,
        shown=_paths(with_),
        read=tuple(read or ()),
        hosts=tuple(allow or ()),
        tools=tuple(tools or ()),
        fresh=fresh,
        parent=(parent, facts),
    )
    _start(wanted, propose, operator, key)


@app.command("list")
def list_(json_: invocation.JsonFlag = False) -> None:
    """List the runs of agents, newest last.

    Example: threegate agent list
    """
    context = open_context(invocation.workspace_here())
    end_dead_runs(context, actor=own_account())
    rows = [(run, facts, is_alive(run)) for run, facts in all_runs(context.workspace)]
    if invocation.wants_json(json_):
        invocation.emit_json(
            [
                {
                    "run": run.run_id,
                    "profile": facts.profile,
                    "project": facts.root,
                    "state": "runs" if alive else "ended",
                    "exit": facts.exit,
                }
                for run, facts, alive in rows
            ]
        )
        return
    for run, facts, alive in rows:
        invocation.say(f"{run.run_id}  {_state(facts, alive)}  {facts.profile} on {facts.root}")
    if not rows:
        invocation.say("no agent has run yet; start one with: threegate agent run codex --project DIR")


def _state(facts: RunFacts, alive: bool) -> str:
    if alive:
        return "runs"
    if facts.exit is not None:
        return f"ended with exit code {facts.exit}"
    return "ended because its launcher was killed" if facts.announced else "never started"


@app.command()
def show(run: RunId, json_: invocation.JsonFlag = False) -> None:
    """Show a run and what it changed.

    Example: threegate agent show ar-20261122
    """

    found, facts = find_run(invocation.workspace_here(), run)
    value = {"run": found.run_id, **asdict(facts), "alive": is_alive(found), "open_hosts": list(read_open_hosts(found))}
    try:
        value["changes"] = _changed_paths(found, facts)
    except ThreeGateError as error:
        value["changes_problem"] = str(error)
    if invocation.wants_json(json_):
        invocation.emit_json(value)
        return
    changes = value.get("changes", [])
    invocation.say(f"run       {found.run_id}, {_state(facts, is_alive(found))}")
    invocation.say(f"agent     {facts.profile}, as the account {facts.account}, since {facts.started_utc}")
    invocation.say(f"project   {facts.root}{f', registered as {facts.project}' if facts.project else ', read-only'}")
    invocation.say(f"copy      {found.work} ({facts.copy})")
    if facts.parent:
        invocation.say(f"parent    {facts.parent}, in whose copy it continued")
    if facts.continued:
        invocation.say(f"copy now  that of {facts.continued}, which continued in it")
    if facts.shown:
        invocation.say(f"shown     {', '.join(facts.shown)} (--with)")
    if hosts := read_open_hosts(found):
        invocation.say(f"hosts     {', '.join(hosts)}; close one: threegate agent close {found.run_id} HOST")
    invocation.say(f"changes   {value.get('changes_problem') or len(changes) or 'none'}")
    for line in changes:
        invocation.say(f"  {line}")
    if is_alive(found):
        invocation.say(f"next      threegate review, or stop it: threegate agent stop {found.run_id}")


def _changed_paths(run: AgentRun, facts: RunFacts) -> list[str]:
    """What differs in a run's work copy, one line per path. A live run is paused while its copy is read."""
    copy = copy_of(run, facts)
    made = read_frozen(run, lambda: read_changes(copy))
    return [*(f"{row.change} {row.path}" for row in made.rows), *left_out_lines(made)]


@app.command()
def propose(
    run: RunId,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="A path of the project to draft, with what is below it.")
    ] = None,
    json_: invocation.JsonFlag = False,
) -> None:
    """Draft again what a run changed, from its kept copy.

    The draft is for the project as it is now. What both sides changed is merged if it can be. What is left out is
    named, and stays in the copy.

    Examples: threegate agent propose ar-20261122
              threegate agent propose ar-20261122 --only src --only README.md
    """
    context = open_context(invocation.workspace_here())
    end_dead_runs(context, actor=own_account())
    found, facts = find_run(context.workspace, run)
    paths = tuple(dict.fromkeys(path.rstrip("/").removeprefix("./") for path in only or ()))
    name, made = propose_again(context.workspace, context.policy.settings, found, facts, paths=paths)
    left = list(left_out_lines(made))
    if invocation.wants_json(json_):
        invocation.emit_json({"run": found.run_id, "draft": name, "changes": made.counts, "left_out": left})
        return
    for line in left:
        invocation.say(f"      {line}")
    invocation.say(f"draft {name}: {changes_line(made)}")
    say_next(context.workspace, found.inbox / name)


@app.command()
def stop(run: RunId, json_: invocation.JsonFlag = False) -> None:
    """Stop a run at once and record its end.

    Example: threegate agent stop ar-20261122
    """
    workspace = invocation.workspace_here()
    found, facts = find_run(workspace, run)
    stopped = stop_run(found, facts)
    if not stopped:
        end_dead_runs(open_context(workspace), actor=own_account())
    if invocation.wants_json(json_):
        invocation.emit_json({"run": found.run_id, "stopped": stopped})
    else:
        invocation.say(f"stopped {found.run_id}" if stopped else f"{found.run_id} had already ended")


@app.command()
def close(
    run: RunId,
    host: Annotated[str, argument("HOST", "A host that it may reach, or that it asked for.")],
    json_: invocation.JsonFlag = False,
) -> None:
    """Take a host back from a run, and break off its connections.

    It stays closed for the run.

    Example: threegate agent close ar-20261122 api.example.com
    """
    context = open_context(invocation.workspace_here())
    end_dead_runs(context, actor=own_account())
    found, facts = find_run(context.workspace, run)
    close_host(context, found, facts, host, actor=own_account())
    if invocation.wants_json(json_):
        invocation.emit_json({"run": found.run_id, "host": host, "open": list(read_open_hosts(found))})
    else:
        invocation.say(f"closed {host} for {found.run_id}")


@app.command()
def remove(
    runs: Annotated[list[str], argument("RUN", "Ids of runs, or the beginnings of them.", agent_runs)],
    json_: invocation.JsonFlag = False,
) -> None:
    """Free what a run has on the disk: its copy, home and inbox.

    The trail and the results in the workspace stay. The next run on the project starts with an empty home, unless an
    earlier one has kept one.

    Example: threegate agent remove ar-20261122
    """
    context, actor = open_context(invocation.workspace_here()), own_account()
    named = [run_named(context.workspace, name) for name in dict.fromkeys(runs)]
    end_dead_runs(context, actor=actor)
    removed = [remove_run(context.workspace, context.trail, run, actor=actor) for run in named]
    if invocation.wants_json(json_):
        invocation.emit_json(
            [
                {"run": item.run, "bytes": item.space.bytes, "files": item.space.names, "drafts": list(item.drafts)}
                for item in removed
            ]
        )
        return
    for item in removed:
        drafts = f", {len(item.drafts)} of them drafts that nobody decided on" if item.drafts else ""
        invocation.say(f"removed {item.run}: {item.space.bytes >> 20} MiB, {item.space.names} files{drafts}")


@app.command()
def forget(yes: YesOption = False) -> None:
    """Remove what the first `agent run` made: workspace, keys, settings.

    It lists them and asks first. Where anything was approved, all of it stays.

    Example: threegate agent forget
    """
    made = Made.read()
    lines = made.lines()
    if not lines:
        raise InvalidInput("there is nothing that a first run of an agent made for you; nothing was removed")
    if (why := why_not_forget(made)) is not None:
        raise InvalidInput(f"{why}; nothing was removed")
    invocation.put([f"remove    {line}" for line in lines])
    ask("Remove all of it, with the drafts and copies of agents there?", yes)
    for line in remove_made(made):
        invocation.warn(line)
    invocation.say("removed")


@app.command()
def prompt(
    form: Annotated[str, typer.Option("--format", help="markdown, or json with the parts separate.")] = "markdown",
    workspace: Annotated[
        str,
        typer.Option("--workspace", "-w", metavar="DIR", help="For this workspace; default: here or above."),
    ] = "",
    default: Annotated[
        bool, typer.Option("--default", help="Print the default limits, for no particular workspace.")
    ] = False,
    json_: invocation.JsonFlag = False,
) -> None:
    """Print a prompt that teaches an agent to use ThreeGate.

    It names this workspace's limits, backends and tools.

    Example: threegate agent prompt --format json
    """
    if form not in ("markdown", "json"):
        raise typer.BadParameter("--format is markdown or json")

    place = anywhere()
    if not default:
        found = find_workspace(explicit=workspace or invocation.ROOT.workspace or None)
        policy = load_policy(found, facts=policy_facts())
        if not policy.contracts.ok:
            invocation.warn("the contracts do not compile, so every request is refused; see: threegate contracts check")
        place = place_of(str(found.root), policy)
    now = datetime.now(UTC)
    if form == "json" or invocation.wants_json(json_):
        invocation.emit_json(prompt_json(place, now))
    else:
        invocation.emit_data(prompt_text(place, now))
