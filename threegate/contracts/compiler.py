"""A contracts folder, compiled completely or not at all.

Invariant: the result depends only on the bytes of the files and the named environment variables, never on the
order of the files; a single error makes the whole folder unusable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from threegate.contracts.compiled import NO_CONTRACTS, SESSION_FILE, Compiled
from threegate.contracts.diagnostics import Diagnostic, error
from threegate.contracts.document import Document, read_document
from threegate.contracts.graph import analyse
from threegate.contracts.load import load_model
from threegate.contracts.model_common import Model, Operators, Terms
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract
from threegate.contracts.schema_derived import Derived, derive, read_parameters
from threegate.contracts.session_check import check_session, check_tools
from threegate.contracts.tool_rules import Rules, Tool, apply
from threegate.core import limits
from threegate.core.canonical import StrictJSONError, digest, loads_strict, sha256_hex

M = TypeVar("M", bound=Model)
WORKFLOW_FILE = "workflow.yaml"
_IGNORED = frozenset({"README.md"})


def compile_folder(
    files: Mapping[str, bytes], *, environment: Mapping[str, str], permit_timeout_allow: bool = False
) -> Compiled:
    """Compile a folder, given as paths below it (``packs/a/session.yaml``) and their bytes. Never raises
    because of them.

    `environment` has the values for `equals_env`; `permit_timeout_allow` is the setting for `on_timeout:
    allow`.
    """
    kept = {name: data for name, data in sorted(files.items()) if not _hidden(name)}
    if len(kept) > limits.CONTRACT_FILES:
        message = f"{len(kept)} files, at most {limits.CONTRACT_FILES}"
        return Compiled((error("TOO_MANY_FILES", "contracts", message),))
    if sum(map(len, kept.values())) > limits.CONTRACT_FOLDER_BYTES:
        message = f"more than {limits.CONTRACT_FOLDER_BYTES} bytes"
        return Compiled((error("FOLDER_TOO_LARGE", "contracts", message),))
    if not any(name.endswith(".yaml") and not name.endswith(".test.yaml") for name in kept):
        stray = tuple(
            error("UNEXPECTED_FILE", name, "belongs to no contract") for name in kept if not name.endswith(".test.yaml")
        )
        return Compiled(stray) if stray else NO_CONTRACTS
    compilation = _Compilation(kept, environment, permit_timeout_allow)
    return compilation.run()


def _hidden(name: str) -> bool:
    """State, and what a contracts folder holds for people."""
    path = PurePosixPath(name)
    return path.name in _IGNORED or any(part.startswith(".") for part in path.parts)


def folder_of(name: str) -> str:
    """The folder of a file, as a prefix of its name: ``packs/worker/`` or nothing."""
    return name[: name.rfind("/") + 1]


class _Compilation:
    """One run of the compiler over one folder."""

    def __init__(self, files: Mapping[str, bytes], environment: Mapping[str, str], permit: bool) -> None:
        self.files = files
        self.environment = environment
        self.permit = permit
        self.diagnostics: list[Diagnostic] = []
        self.used: set[str] = set()
        self.variables: set[str] = set()

    def run(self) -> Compiled:
        """Compile everything."""
        found = self._load(WORKFLOW_FILE, WorkflowContract) if WORKFLOW_FILE in self.files else None
        workflow = None if found is None else found[1]
        names = {SESSION_FILE, *(role.session_contract for role in (workflow.roles if workflow else ()))}
        parts = {folder: self._tools(folder, names) for folder in sorted(map(folder_of, names))}
        own = parts[""]
        tools = {name: {**own, **parts[folder_of(name)]} for name in names}
        sessions = {name: loaded for name in sorted(names) if (loaded := self._session(name)) is not None}
        for name, (document, contract) in sessions.items():
            self.diagnostics.extend(check_session(document, contract, tools[name]))
        if found is not None:
            self.diagnostics.extend(self._roles(*found, [contract for _, contract in sessions.values()]))
        case_inputs = self._case_inputs([item for found in parts.values() for item in found.values()])
        for name in self.files:
            if name not in self.used and not name.endswith(".test.yaml"):
                self.diagnostics.append(error("UNEXPECTED_FILE", name, "belongs to no contract"))
        for named in tools.values():
            self.diagnostics.extend(check_tools(named))
        # With an error nothing is applied: half a folder would let through what the other half forbids.
        rules: dict[str, Rules] = {}
        if all(item.severity != "error" for item in self.diagnostics):
            for name, (document, contract) in sessions.items():
                rules[name] = apply(name, contract, tools[name])
                self.diagnostics.extend(analyse(document, rules[name], tools[name]))
        every = sorted(set(self.diagnostics))
        kept = tuple(every[: limits.CONTRACT_DIAGNOSTICS])
        errors = [item for item in every if item.severity == "error"]
        # `Compiled.ok` looks at what is kept, so a flood of warnings must not push the errors out.
        if errors and not any(item.severity == "error" for item in kept):
            kept = (*kept, errors[0])
        left_out = len(every) - len(kept)
        if errors:
            return Compiled(kept, left_out=left_out)
        return Compiled(
            kept,
            {name: item.contract for found in (*parts.values(), own) for name, item in found.items()},
            rules,
            workflow,
            scenario_files=tuple(name for name in self.files if name.endswith(".test.yaml")),
            variables=tuple(sorted(self.variables)),
            case_inputs=case_inputs,
            sha256=self._digest(),
            left_out=left_out,
        )

    def _digest(self) -> str:
        named = {name: self.environment.get(name) for name in sorted(self.variables)}
        return digest(
            {
                "files": {name: sha256_hex(data) for name, data in self.files.items()},
                "environment": {name: value and sha256_hex(value.encode()) for name, value in named.items()},
            }
        )

    def _load(self, name: str, kind: type[M]) -> tuple[Document, M] | None:
        """A file's content and its model; None if its fields are wrong. Reports what is wrong with either."""
        self.used.add(name)
        document = read_document(name, self.files[name])
        loaded = [document] if isinstance(document, Diagnostic) else load_model(document, kind, self.environment)
        if isinstance(document, Diagnostic) or isinstance(loaded, list):
            self.diagnostics.extend(loaded if isinstance(loaded, list) else ())
            return None
        version = loaded.schema_version if isinstance(loaded, ToolContract) else "1.0"
        terms = Terms(version, self.permit)
        for where, part in loaded.parts():
            self.diagnostics.extend(
                document.error(code, (*where, *at), text) for code, at, text in part.problems(terms)
            )
            if isinstance(part, Operators) and part.equals_env is not None:
                self.variables.add(part.equals_env)
        return document, loaded

    def _session(self, name: str) -> tuple[Document, SessionContract] | None:
        """The session contract of a file; without a session.yaml, one without rules."""
        if name in self.files:
            return self._load(name, SessionContract)
        if name != SESSION_FILE:
            return None
        return Document(SESSION_FILE, {}), SessionContract(schema_version="1.0", agent="default")

    def _roles(
        self, document: Document, workflow: WorkflowContract, sessions: list[SessionContract]
    ) -> Iterator[Diagnostic]:
        """What a workflow names in the folder: session files, and resources that a session declares."""
        for index, role in enumerate(workflow.roles):
            path = PurePosixPath(role.session_contract)
            if role.session_contract not in self.files or path.suffix != ".yaml" or ".." in path.parts:
                message = f"{role.session_contract!r} is not a session file in this folder"
                yield document.error("SESSION_CONTRACT_MISSING", ("roles", index, "session_contract"), message)
        aliases = {alias for session in sessions for alias in session.resources}
        for index, resource in enumerate(workflow.shared_resources):
            if resource.alias not in aliases:
                message = f"no session declares the resource {resource.alias!r}"
                yield document.error("UNKNOWN_RESOURCE", ("shared_resources", index, "alias"), message)

    def _tools(self, folder: str, session_files: set[str]) -> dict[str, Tool]:
        """The tools of one folder: of the contracts folder itself, or of a role next to its session file."""
        tools: dict[str, Tool] = {}
        for name in self.files:
            if folder_of(name) != folder or not name.endswith(".yaml") or name.endswith(".test.yaml"):
                continue
            if name in session_files or name == WORKFLOW_FILE:
                continue
            loaded = self._load(name, ToolContract)
            if loaded is None:
                continue
            document, contract = loaded
            if name != f"{folder}{contract.tool}.yaml":
                message = f"{contract.tool!r} belongs in {contract.tool}.yaml"
                self.diagnostics.append(document.error("TOOL_NAME_MISMATCH", ("tool",), message))
            if contract.tool in tools:
                message = f"{contract.tool!r} is in two files"
                self.diagnostics.append(document.error("DUPLICATE_TOOL", ("tool",), message))
            tools[contract.tool] = Tool(contract, document, self._schema(folder, contract))
        return tools

    def _schema(self, folder: str, contract: ToolContract) -> Derived | None:
        """The tool's schema and the rules from it; a role's contract without its own schema uses the folder's."""
        file = f"{contract.tool}.schema.json"
        names = [name for name in (folder + file, file) if name in self.files]
        if not names:
            return None
        name = names[0]
        self.used.add(name)
        if not contract.schema_derived:
            return Derived((), read_parameters(contract.tool, self.files[name]))
        derived, found = derive(name, contract.tool, self.files[name])
        self.diagnostics.extend(found)
        return derived

    def _case_inputs(self, tools: Iterable[Tool]) -> dict[str, Any]:
        """The JSON objects that golden cases name."""
        inputs: dict[str, Any] = {}
        for tool in tools:
            for index, case in enumerate(tool.contract.golden_cases):
                if case.input_ref is None:
                    continue
                value = read_case(self.files.get(case.input_ref))
                if value is None:
                    where = ("golden_cases", index, "input_ref")
                    message = f"{case.input_ref!r} is not a JSON object in the folder"
                    self.diagnostics.append(tool.document.error("BAD_CASE_INPUT", where, message))
                else:
                    inputs[case.input_ref] = value
                self.used.add(case.input_ref)
        return inputs


def read_case(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object of a golden case's file, or None."""
    if data is None:
        return None
    try:
        value = loads_strict(data, max_bytes=limits.CONTRACT_FILE_BYTES)
    except StrictJSONError:
        return None
    return value if isinstance(value, dict) else None
