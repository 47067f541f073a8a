"""The backend ERA: one command in a sandbox of its own, a hardened container or bubblewrap.

The engine's client library is the extra `era`. Without it, requests for an engine wait as they do without an engine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.extras import has_extra, install_line
from threegate.request.action import Command
from threegate.request.backend import Reading
from threegate.request.job import BUBBLEWRAP, Job, Platforms
from threegate.runners.backend import DoctorLine, RunningBackend, guarded

if TYPE_CHECKING:
    from threegate.core.settings import EraSettings, RunnersSettings, SecretReference, Settings
    from threegate.request.job import Platform
    from threegate.request.sandbox_contents import Contents
    from threegate.runners.backend import RunNeed
    from threegate.runners.interface import Runner


class Era(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "ERA"
    sections = ("Command", "Input Files", "Output Expectations", "Risk Assessment")
    closely = ("Command",)
    network = True
    container = True
    # A command can run an input, as `python3 /in/script.py` does.
    data_inputs = False
    overhead_mb = 32  # the container's shim and our side of its streams
    on_workers = True
    sweeps_for_others = True  # servers of tools have containers of the same workspace

    def read(self, reading: Reading) -> Command | None:
        from threegate.request.sections import read_input_list

        read_input_list(reading)
        words = reading.command()
        return Command(words) if words else None

    def drafted(self, command: str, code: str, variables: str | None) -> Command:
        if not command:
            raise InvalidInput(f"backend {self.name} runs a command; give it with --command 'python3 /in/script.py'")
        if code or variables is not None:
            raise InvalidInput(f"backend {self.name} runs a command; send code as an --input, or use --backend monty")
        try:
            return Command(tuple(shlex.split(command)))
        except ValueError as error:
            raise InvalidInput(f"--command: {error}; fix the quoting") from None

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        from threegate.runners.era.runner import EraRunner

        return EraRunner(settings.runners.era, secret_references=secrets)

    def rows(self, settings: RunnersSettings) -> int:
        return settings.era.parallel

    def doctor(self, settings: Settings, probes: bool) -> list[DoctorLine]:
        era = settings.runners.era
        if era.runtime not in _WITHOUT_ENGINE:
            return _engine_lines(era, probes)

        def lines() -> Iterator[DoctorLine]:
            from threegate.runners.era.bubblewrap_doctor import bubblewrap_lines

            # What runs first is what is measured.
            yield from bubblewrap_lines(era, probes and not self.platforms(settings, here=True).now[0].engine)

        found = guarded("bubblewrap", lines, failure="warning")
        if era.runtime == BUBBLEWRAP:
            return found
        engine = _engine_lines(era, probes)
        if found[0].state == "ok" and len(engine) == 1:
            (line,) = engine  # a machine needs one of the two
            why = line.seen.partition(";")[0]
            engine = [DoctorLine(line.name, "ok", f"{why}; not needed: ERA requests run in bubblewrap")]
        return [*found, *engine]

    def answers(self, settings: Settings) -> DoctorLine:
        from threegate.runners.era.bubblewrap_answer import bubblewrap_line

        era = settings.runners.era
        if era.runtime == BUBBLEWRAP:
            return bubblewrap_line(era)
        engine = _engine_answers(era)
        if engine.state == "ok" or era.runtime != "auto":
            return engine
        without = bubblewrap_line(era)
        if without.state == "ok":
            return DoctorLine("engine", "ok", f"not needed: bubblewrap {without.seen}")
        return DoctorLine("engine", "warning", f"{engine.seen}; nor bubblewrap: {without.seen}", without.fix)

    def remove_orphans(
        self, workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path
    ) -> list[str]:
        from threegate.runners.era.jailed_cgroup import sweep

        sweep()
        return remove_orphans(workspace_id, boot_nonce, url=settings.era.engine, runs_folder=runs_folder)

    def policy_facts(self) -> dict[str, str]:
        from threegate.runners.seccomp import SECCOMP_SHA256

        return {"seccomp": SECCOMP_SHA256}

    def platforms(self, settings: Settings, *, here: bool) -> Platforms:
        from threegate.runners.era.platforms import era_platforms

        return era_platforms(settings.runners.era, here=here)

    def place(self, settings: Settings, job: Job) -> str:
        from threegate.runners.era.bubblewrap_answer import place_of, short_digest
        from threegate.runners.era.root_identity import identify

        if job.platform.engine:
            return f"a container of the image {short_digest(job.image)}" if job.image else "no image is set"
        try:
            root = identify(settings.runners.era)
        except Unavailable as error:
            return f"nowhere now: {error}"
        # Approved for another root, it does not run; its own check says so.
        where = place_of(root) if root.digest == job.image else "another root than this machine has now"
        return f"{job.runtime} on {where} ({short_digest(job.image)})"

    def contents(self, settings: RunnersSettings, platform: Platform) -> Contents:
        from threegate.runners.era.contents import contents

        return contents(settings.era, platform)

    def blocked(self, settings: Settings, need: RunNeed, platform: Platform) -> DoctorLine | None:
        from threegate.runners.era.blocked_runs import why_blocked

        return why_blocked(settings.runners.era, need, platform, lambda: self.answers(settings))


_WITHOUT_ENGINE: Final = ("auto", BUBBLEWRAP)
"""Values of `runners.era.runtime` with which a request may run in bubblewrap."""


def _engine_answers(era: EraSettings) -> DoctorLine:
    if not has_extra("era"):
        return DoctorLine(
            "engine",
            "warning",
            "the extra era is not installed: nothing runs in a container",
            f"{install_line('era')}, then restart the daemon",
        )
    from threegate.runners.era.engine_answer import engine_line

    return engine_line(era.engine)


def _engine_lines(era: EraSettings, probes: bool) -> list[DoctorLine]:
    """The lines about the engine; one alone if there is none."""
    from threegate.runners.era.engine_answer import engine_url, has_engine

    if not has_engine(engine_url(era.engine)):
        return [_engine_answers(era)]  # no engine to query: the client library is not loaded

    def lines() -> Iterator[DoctorLine]:
        from threegate.runners.era.era_doctor import era_lines

        yield from era_lines(era, probes)

    # A machine without a container engine is a valid setup.
    return guarded("engine", lines, failure="warning")


def remove_orphans(workspace_id: str, boot_nonce: str, *, url: str = "", runs_folder: Path | None = None) -> list[str]:
    """Kill and remove the containers, networks and volumes of older boots, and the work folders below `runs_folder`.
    Nothing is touched but objects with this workspace's id and the nonce of another boot (docs/spec/6-runners.md, ERA).

    Returns one line for each. Without an engine that answers, or its client library, only the folders are removed
    (the containers ended with their standard input, or will at their own deadline). Raises Unavailable if the engine
    answers but cannot remove one.
    """
    from threegate.core.removal import remove_folder
    from threegate.runners.era.engine_answer import LABEL, engine_url, has_engine, has_none_labelled

    removed = []
    for work in sorted(runs_folder.glob("*/work")) if runs_folder is not None else ():
        remove_folder(work)
        removed.append(f"removed {work}")
    engine, label = engine_url(url), f"{LABEL}={workspace_id}"
    # Nearly always: then the client library, a fifth of what a start imports, is not loaded.
    if not has_engine(engine) or has_none_labelled(engine, label):
        return removed
    import docker.errors

    from threegate.runners.era import container_engine

    try:
        api = container_engine.connect(engine)
    except Unavailable:
        return removed
    try:
        marks = {"label": label}
        for found in api.containers(all=True, filters=marks):
            if found["Labels"].get(container_engine.BOOT_LABEL) == boot_nonce:
                continue
            name = str(found["Names"][0]).lstrip("/") if found["Names"] else found["Id"][:12]
            if not container_engine.remove_container(api, found["Id"]):
                raise Unavailable(f"container {name} of an earlier run cannot be removed; remove it by hand")
            removed.append(f"removed container {name} of {found['Labels'].get(container_engine.REQUEST_LABEL, '?')}")
        # After the containers: a network or volume in use cannot be removed.
        for network in api.networks(filters=marks):
            if (network.get("Labels") or {}).get(container_engine.BOOT_LABEL) != boot_nonce:
                with suppress(docker.errors.NotFound):  # removed since it was listed
                    api.remove_network(network["Id"])
                removed.append(f"removed network {network['Name']}")
        for volume in api.volumes(filters=marks).get("Volumes") or ():
            if (volume.get("Labels") or {}).get(container_engine.BOOT_LABEL) != boot_nonce:
                with suppress(docker.errors.NotFound):
                    api.remove_volume(volume["Name"])
                removed.append(f"removed volume {volume['Name'][:12]}")
    except container_engine.FAULTS as error:
        raise Unavailable(f"the engine did not list what is left ({container_engine.reason(error)})") from None
    finally:
        api.close()
    return removed


BACKEND = Era()
