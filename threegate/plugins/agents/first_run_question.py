"""Asks a person, once, whether what `threegate agent run` does not find may be made.

Invariant: nothing is made before a yes, and without a terminal nothing is. What would stop the run on this machine is
found before the question. A key that is typed is not shown, and is in no message.
"""

from __future__ import annotations

import getpass
import os
import shlex
from pathlib import Path
from typing import Final

import typer

from threegate.acts.operator_keys import below_home, key_to_enrol, operator_keys, own_key_file
from threegate.approval.signature import SSH_KEYGEN
from threegate.cli import invocation
from threegate.cli.key_question import WITH
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace, Unavailable
from threegate.core.extras import require_extra
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace, default_workspace
from threegate.plugins.agents.first_run import Missing, ModelAccess, key_from, make_missing, model_access
from threegate.plugins.agents.profile import find_program, load_profile
from threegate.plugins.agents.run_plan import agent_account
from threegate.plugins.agents.work_copy import refuse_project
from threegate.plugins.changes.apply.runner import why_not_now
from threegate.plugins.changes.projects import check_new, look_at_project
from threegate.runners.jail import jail_trial

UNDO: Final = "threegate agent forget"


def own_workspace() -> Workspace | None:
    """The workspace for an agent: the named one, else this user's own; None: there is none yet. Raises NoWorkspace."""
    try:
        return invocation.workspace_here(only_own=True)
    except NoWorkspace:
        if invocation.ROOT.workspace or os.environ.get("THREEGATE_WORKSPACE"):
            raise
        return None


def workspace_for_run(profile: str, arguments: tuple[str, ...], project: Path, account: str) -> Workspace:
    """The workspace for a run of an agent; what is missing is made if the person agrees. Raises as `run_agent` does
    before it starts anything, NoWorkspace without a terminal, Exit after a no.
    """
    workspace = own_workspace()
    settings = Settings() if workspace is None else workspace.load_settings()
    if not invocation.on_terminal():
        if workspace is None:
            raise NoWorkspace(
                "you have no workspace yet, and there is no terminal to ask on: run this once in a terminal, or: "
                f"threegate init {shlex.quote(str(default_workspace()))}"
            )
        return workspace  # what else is missing, the launcher says
    found = load_profile(profile, settings)
    model = model_access(found, settings)
    if workspace is not None and model is None:
        return workspace
    require_extra("an agent", "agents", "mcp")
    of = agent_account(account)
    root = refuse_project(project, workspace or Workspace(default_workspace()), "")
    find_program(found, arguments)
    if not os.access(SSH_KEYGEN, os.X_OK):
        raise Unavailable(f"{SSH_KEYGEN} is missing, and every signature needs it: apt-get install openssh-client")
    jail_trial.check_walls(of)
    operator = key_to_enrol(operator_keys()) if workspace is None else None
    missing = Missing(workspace, operator, model)
    return _ask(missing, found.name, root)


def _ask(missing: Missing, profile: str, root: Path) -> Workspace:
    new_key = missing.workspace is None and missing.operator is None
    invocation.warn(f"{profile} needs what is not here yet. This is made, and nothing else of yours is changed:")
    invocation.put(_lines(missing, root), err=True)
    answer = _answer(f"Go on? [Y/n{'/p' if new_key else ''}] ")
    if answer not in ("", "y", "yes", *(("p",) if new_key else ())):
        invocation.warn("nothing was made")
        raise typer.Exit(EXIT_REFUSED)
    model, typed = missing.model, ""
    if model is not None and model.typed:
        invocation.prompt(f"Key for {model.host}, or a file that has it (not shown): ", err=True)
        try:
            typed = key_from(getpass.getpass("").strip())
        except EOFError:
            raise InvalidInput("no key was given; nothing was made") from None
    workspace, made = make_missing(missing, typed=typed, locked=answer == "p")
    invocation.warn("made, and undone by: " + UNDO)
    invocation.put([f"  {line}" for line in (*made, *((WITH,) if answer == "p" else ()))], err=True)
    return workspace


def _lines(missing: Missing, root: Path) -> list[str]:
    """What is made, in at most six lines."""
    lines = []
    if missing.workspace is None:
        lines.append(f"workspace  {below_home(default_workspace())}, for you alone")
        if missing.operator is not None:
            key = missing.operator
            lines.append(f"operator   {key.fingerprint} ({key.described}), who signs what may happen")
        else:
            lines.append(
                f"operator   a new key, {below_home(own_key_file())}; who reads the file can sign (p: with a "
                "passphrase)"
            )
        lines.append(f"project    {root}: the agent gets a copy, and what you sign is applied there{_remark(root)}")
    if missing.model is not None:
        lines.append(f"model      {_model_line(missing.model)}")
    if missing.workspace is None and os.geteuid() != 0:
        lines.append("daemon     while an agent runs; to keep one: threegate settings service install")
    return [f"  {line}" for line in lines]


def _remark(root: Path) -> str:
    """Why nothing can be applied to a project, for the end of its line."""
    place = look_at_project("project", str(root))
    try:
        check_new(Workspace(default_workspace()), place)
    except InvalidInput as error:
        return f"; not now: {error}"
    why = why_not_now(place)
    return "" if why is None else f"; not now: {why}"


def _model_line(model: ModelAccess) -> str:
    host = model.host + (f" (from {model.url_variable})" if model.url_variable else "")
    if model.login is not None:
        return f"{host}, with the login in {below_home(model.login)}"
    if not model.secret:
        return f"{host}, without a key"
    if model.variable:
        return f"{host}, with the key in {model.variable}"
    assert model.file is not None
    if model.typed:
        return f"{host}, with a key that you type next; it is stored in {below_home(model.file)}, for you alone"
    return f"{host}, with the key in {below_home(model.file)}"


def _answer(question: str) -> str:
    """What a person types, in lower case; what was typed before the question is not an answer. Raises InvalidInput if
    the terminal is too narrow or gone.
    """
    invocation.screen_width(to_stderr=True)
    line = invocation.typed_line(question, err=True)
    return line.strip().lower() if line else "n"
