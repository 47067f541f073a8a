"""`threegate project survey`: what an agent would see of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, argument, context_here, emit_json, on_terminal, say, wants_json
from threegate.cli.progress import busy
from threegate.core.errors import InvalidInput
from threegate.plugins.agents.findings_question import decide_findings, finding_line
from threegate.plugins.agents.project_survey import Survey, scan_cache
from threegate.plugins.agents.project_survey import survey as survey_project
from threegate.plugins.agents.secret_answers import Answers, keep_answers
from threegate.plugins.agents.work_copy import refuse_project
from threegate.plugins.changes.make import utf_8
from threegate.plugins.changes.section import AgentsSettings
from threegate.setup.init import account


def survey(
    folder: Annotated[Path, argument("DIR", "A project's folder.")] = Path(),
    with_: Annotated[
        list[str] | None, typer.Option("--with", metavar="PATH", help="As for `threegate agent run PROFILE`.")
    ] = None,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Ask about what was found, also where you decided before."),
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Show which files of a project are hidden from agents.

    It lists what looks like a secret, also where agents see it: path, line, kind, and the line with the secret masked.
    Nothing is run and nothing is changed. With --ask you can correct an earlier answer, for the runs that follow.

    Example: threegate project survey ~/app --ask
    """
    if ask and not on_terminal():
        raise InvalidInput("--ask asks a person: use it in a terminal")
    context = context_here()
    root = refuse_project(folder, context.workspace, context.workspace_id)
    answers = Answers.read(context.workspace, root)

    def look() -> Survey:
        with busy("reading the project") as progress:
            return survey_project(
                root,
                shown=tuple(path.rstrip("/") for path in with_ or ()),
                cache=scan_cache(context.workspace_id),
                progress=lambda count: progress(count, 0),
                protected=context.policy.settings.section(AgentsSettings).protected,
                key=answers.key,
                answers=answers.hides,
            )

    found = look()
    if ask:
        decided = decide_findings(found.questions(answers.hides, again=True), lambda: 0)
        if decided:
            answers = keep_answers(context.workspace, answers, decided, actor=account())
            found = look()
    hidden = {path: why for path, why in found.hidden.items() if path != ".git"}  # the agent has a clean one
    rows = [
        {
            "path": utf_8(item.path),
            "line": item.line or None,
            "kind": item.kind,
            "excerpt": item.excerpt or None,
            "confidence": "high" if item.certain else "low",
            "hidden": item.path in hidden,
            "decided": answers.hides.get(item.digest) is not None,
        }
        for item in found.findings
    ]
    if wants_json(json_):
        emit_json(
            {
                "root": str(root),
                "entries": len(found.entries),
                "hidden": [{"path": utf_8(path), "reason": why} for path, why in hidden.items()],
                "findings": rows,
            }
        )
        return
    not_seen = f"{len(hidden)} are hidden from it" if hidden else "nothing is hidden from it"
    say(f"{root}: an agent sees {len(found.entries)} files, folders and links; {not_seen}")
    named = {item.path for item in found.findings}
    for path, why in hidden.items():
        if path not in named:
            say(f"hidden  {path:<32} {why}")
    for item in found.findings:
        say(f"{'hidden' if item.path in hidden else 'shown '}  {finding_line(item)}")
