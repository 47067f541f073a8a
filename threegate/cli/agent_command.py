"""`threegate agent`: run an agent in its jail, look at its runs, and what to tell an agent that runs elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli import invocation

if TYPE_CHECKING:
    from threegate.agents.launcher import Finished
    from threegate.agents.runs import RunFacts
    from threegate.core.workspace import AgentRun
    from threegate.launch.context import Context

app = typer.Typer(
    no_args_is_help=True, help="Agents: run one in a jail, list, show, stop, connect; and what to tell one."
)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or how it begins.")]


@app.callback()
def agent() -> None:
    """Agents: run one in a jail, list, show, stop, connect; and what to tell one."""


@app.command()
def run(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE", help="codex, opencode, gemini, claude, qwen, generic, or one of the settings."
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGS]...", help="The agent's own arguments; for generic the program."),
    ] = None,
    project: Annotated[
        Path, typer.Option(metavar="DIR", help="The project that it gets a copy of.")
    ] = Path(),
    account: Annotated[
        str, typer.Option("--as", metavar="USER", help="As root: the account that the agent runs as.")
    ] = "",
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PATH", help="Show a protected path of the project to it."),
    ] = None,
    read: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Another folder that it may read, such as a toolchain."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host that it may send anything to; you sign for it."),
    ] = None,
    propose: Annotated[
        str,
        typer.Option(metavar="WHEN", help="Draft what it changed and did not propose: ask, always or never."),
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start with an empty home, not with that of its last run here.")
    ] = False,
    operator: Annotated[str, typer.Option(metavar="NAME", help="With --allow: who signs.")] = "",
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --allow: the key to sign with.")
    ] = None,
) -> None:
    """Run an agent in a jail, on a copy of a project. What reaches outside is a request that a person signs.

    Examples: threegate agent run codex --project ~/app
              threegate agent run generic --project ~/app -- sh -c 'echo hello >notes.txt'
    """
    if propose not in ("", "ask", "always", "never"):
        raise typer.BadParameter("--propose is ask, always or never")
    from threegate.agents.launcher import Wanted, run_agent
    from threegate.launch.context import open_context
    from threegate.setup.init import account as own_account

    context = open_context(invocation.workspace_here())
    acting = None
    if allow:
        from threegate.acts.signing_key import acting_operator
        from threegate.launch.launch_problem import read_operators

        acting = acting_operator(read_operators(context.workspace), name=operator, key=key)
    wanted = Wanted(
        profile,
        project,
        tuple(arguments or ()),
        account,
        shown=tuple(path.strip("/") for path in with_ or ()),
        read=tuple(read or ()),
        hosts=tuple(allow or ()),
        acting=acting,
        fresh=fresh,
    )
    when = propose or ("ask" if invocation.on_terminal() else "always")
    finished = run_agent(
        context,
        wanted,
        actor=own_account(),
        say=invocation.warn,
        propose=lambda ended: _proposed(context, ended, when),
    )
    _tell(finished)
    raise typer.Exit(finished.exit)


def _proposed(context: Context, finished: Finished, when: str) -> str | None:
    """Draft what an agent changed, as far as that is wanted; the digest of the change set."""
    changes = finished.changes
    if changes is None or when == "never":
        return None
    if when == "ask" and not typer.confirm(
        f"Propose its changes to {len(changes.rows)} paths?", default=True, err=True
    ):
        return None
    from threegate.agents.propose import draft_changes
    from threegate.core.errors import ThreeGateError

    facts = finished.facts
    try:
        name = draft_changes(
            context.workspace,
            context.policy.settings,
            finished.run,
            finished.copy.root,
            changes,
            profile=facts.profile,
            purpose=f"Changes that {facts.profile} made in {facts.project}",
        )
    except (ThreeGateError, OSError) as error:
        invocation.warn(f"its changes were not proposed: {error}")
        return None
    invocation.warn(f"drafted {name}; read and sign it in another terminal: threegate review")
    return changes.sha256


def _tell(finished: Finished) -> None:
    """What came of a run, on stderr: stdout is the agent's."""
    if finished.problem:
        invocation.warn(finished.problem)
    if finished.changes is None:
        return
    for item in finished.changes.left_out[:10]:
        invocation.warn(f"left out: {item.path}: {item.reason}")
    if finished.changes.rows:
        invocation.warn(
            f"{len(finished.changes.rows)} paths differ in the work copy of {finished.run.run_id}"
        )


@app.command()
def connect(
    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", help="codex, opencode, gemini, claude, qwen or generic.")
    ],
) -> None:
    """Print the MCP entry for an agent that runs elsewhere, without a jail."""
    import sys

    from threegate.agents.profile import Filled, load_profile

    workspace = invocation.workspace_here()
    found = load_profile(profile, workspace.load_settings())
    door = (sys.executable, "-m", "threegate", "--workspace", str(workspace.root), "serve", "mcp")
    invocation.warn(f"put this into {found.connect_file}; it needs the extra: pip install 'threegate[mcp]'")
    invocation.warn(
        "without the jail the agent's own shell and file tools are not behind the gate: only what it asks for through this "
        f"server is signed. With the jail: threegate agent run {profile}"
    )
    typer.echo(invocation.safe(Filled(found, "", door=door).text(found.connect)), nl=False)


@app.command("list")
def list_(json_: invocation.JsonFlag = False) -> None:
    """List the runs of agents, the newest last."""
    from threegate.agents.runs import all_runs, end_dead_runs, is_alive
    from threegate.launch.context import open_context
    from threegate.setup.init import account

    context = open_context(invocation.workspace_here())
    end_dead_runs(context, actor=account())
    rows = [(run, facts, "runs" if is_alive(run) else "ended") for run, facts in all_runs(context.workspace)]
    if invocation.wants_json(json_):
        invocation.emit_json(
            [
                {
                    "run": run.run_id,
                    "profile": facts.profile,
                    "project": facts.root,
                    "state": state,
                    "exit": facts.exit,
                }
                for run, facts, state in rows
            ]
        )
        return
    for run, facts, state in rows:
        code = f" with exit code {facts.exit}" if facts.exit is not None else ""
        invocation.say(f"{run.run_id}  {state}{code}  {facts.profile} on {facts.root}")
    if not rows:
        invocation.say("no agent ran yet; start one with: threegate agent run codex --project DIR")


@app.command()
def show(run: RunId, json_: invocation.JsonFlag = False) -> None:
    """Show what is known of a run, and what it changed."""
    from dataclasses import asdict

    from threegate.agents.runs import find_run, is_alive
    from threegate.core.errors import ThreeGateError

    found, facts = find_run(invocation.workspace_here(), run)
    value = {"run": found.run_id, **asdict(facts), "alive": is_alive(found)}
    try:
        value["changes"] = _changed_paths(found, facts)
    except ThreeGateError as error:
        value["changes_problem"] = str(error)
    if invocation.wants_json(json_):
        invocation.emit_json(value)
        return
    for key, item in value.items():
        if isinstance(item, list):
            invocation.say(f"{key}: {len(item)}")
            for line in item:
                invocation.say(f"  {line}")
        else:
            invocation.say(f"{key}: {item}")


def _changed_paths(run: AgentRun, facts: RunFacts) -> list[str]:
    """What differs in a run's work copy, one line a path. A run that goes on is stopped while it is read."""
    from threegate.agents.jail import Account
    from threegate.agents.runs import frozen
    from threegate.agents.work_changes import read_changes
    from threegate.agents.work_copy import WorkCopy

    copy = WorkCopy.of(run, Path(facts.root), facts.copy, Account(facts.account, facts.uid, facts.gid))
    with frozen(facts):
        made = read_changes(copy)
    return [f"{row.change} {row.path}" for row in made.rows]


@app.command()
def stop(run: RunId) -> None:
    """Stop a run: the agent ends at once, and its end is recorded."""
    from threegate.agents.runs import end_dead_runs, find_run, stop_run
    from threegate.launch.context import open_context
    from threegate.setup.init import account

    workspace = invocation.workspace_here()
    found, facts = find_run(workspace, run)
    if not stop_run(found, facts):
        end_dead_runs(open_context(workspace), actor=account())
        invocation.say(f"{found.run_id} had ended")
        return
    invocation.say(f"stopped {found.run_id}")


@app.command()
def prompt(
    form: Annotated[
        str, typer.Option("--format", help="markdown or json (with the parts by themselves).")
    ] = "markdown",
    workspace: Annotated[
        str,
        typer.Option("--workspace", "-w", metavar="DIR", help="For this workspace; default: here or above."),
    ] = "",
    default: Annotated[
        bool, typer.Option("--default", help="For no workspace in particular: the default maxima.")
    ] = False,
    json_: invocation.JsonFlag = False,
) -> None:
    """Print a text that teaches an agent to ask, with this workspace's maxima, backends and tools."""
    if form not in ("markdown", "json"):
        raise typer.BadParameter("--format is markdown or json")
    from threegate.core.workspace import find_workspace
    from threegate.judgement.policy import load_policy
    from threegate.runners.registry import policy_facts
    from threegate.setup.agent_prompt import anywhere, place_of, prompt_json, prompt_text

    place = anywhere()
    if not default:
        found = find_workspace(explicit=workspace or invocation.ROOT.workspace or None)
        policy = load_policy(found, facts=policy_facts())
        if not policy.contracts.ok:
            invocation.warn(
                "the contracts do not hold, so every request is refused; see: threegate contracts check"
            )
        place = place_of(str(found.root), policy)
    now = datetime.now(UTC)
    if form == "json" or invocation.wants_json(json_):
        invocation.emit_json(prompt_json(place, now))
    else:
        typer.echo(invocation.safe(prompt_text(place, now)), nl=False)
