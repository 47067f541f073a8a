"""A contracts folder, compiled completely or not at all.

Invariant: the result depends only on the bytes of the files and the named environment variables, never on the
order of the files; a single error makes the whole folder unusable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from threegate.contracts.assemble import build_rules
from threegate.contracts.build import Scope, build_tool
from threegate.contracts.compiled import NO_CONTRACTS, SESSION_FILE, Compiled
from threegate.contracts.diagnostics import Diagnostic, error
from threegate.contracts.document import Document, read_document
from threegate.contracts.graph import analyse
from threegate.contracts.links import check_links
from threegate.contracts.load import load_model
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract
from threegate.contracts.schema_derived import Derived, derive, read_parameters
from threegate.contracts.tool_plan import ToolParts
from threegate.contracts.workflow_check import check_workflow
from threegate.core import limits
from threegate.core.canonical import StrictJSONError, digest, loads_strict, sha256_hex

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
        workflow, workflow_scope = self._workflow()
        session_files = (
            {SESSION_FILE, *(role.session_contract for role in workflow.roles)} if workflow else {SESSION_FILE}
        )
        parts = {folder: self._tools(folder, session_files) for folder in sorted(map(folder_of, session_files))}
        own = parts[""]
        tools = {name: {**own, **parts[folder_of(name)]} for name in session_files}
        sessions = {}
        scopes = {}
        for name in sorted(session_files):
            loaded = self._session(name)
            if loaded is not None:
                scopes[name], contract = loaded
                sessions[name] = build_rules(scopes[name], contract, tools[name])
        if workflow is not None and workflow_scope is not None:
            check_workflow(workflow_scope, workflow, sessions, set(self.files))
            self.diagnostics.extend(workflow_scope.diagnostics)
        case_inputs = self._case_inputs([item for found in parts.values() for item in found.values()])
        self._strays()
        for scope in scopes.values():
            self._take(scope)
        for found in tools.values():
            self.diagnostics.extend(check_links(found))
        if not any(item.severity == "error" for item in self.diagnostics):
            for name, rules in sessions.items():
                self.diagnostics.extend(analyse(scopes[name].document, rules, tools[name]))
        every = sorted(set(self.diagnostics))
        kept = tuple(every[: limits.CONTRACT_DIAGNOSTICS])
        errors = [item for item in every if item.severity == "error"]
        if errors and not any(item.severity == "error" for item in kept):
            kept = (*kept, errors[0])
        left_out = len(every) - len(kept)
        if errors:
            return Compiled(kept, left_out=left_out)
        return Compiled(
            kept,
            {name: item.contract for found in (*parts.values(), own) for name, item in found.items()},
            sessions,
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

    def _read(self, name: str) -> Document | None:
        self.used.add(name)
        document = read_document(name, self.files[name])
        if isinstance(document, Diagnostic):
            self.diagnostics.append(document)
            return None
        return document

    def _scope(self, document: Document) -> Scope:
        return Scope(document, self.environment, permit_timeout_allow=self.permit)

    def _take(self, scope: Scope) -> None:
        self.diagnostics.extend(scope.diagnostics)
        self.variables |= scope.variables

    def _workflow(self) -> tuple[WorkflowContract | None, Scope | None]:
        document = self._read(WORKFLOW_FILE) if WORKFLOW_FILE in self.files else None
        if document is None:
            return None, None
        loaded = load_model(document, WorkflowContract)
        if isinstance(loaded, list):
            self.diagnostics.extend(loaded)
            return None, None
        return loaded, self._scope(document)

    def _session(self, name: str) -> tuple[Scope, SessionContract] | None:
        """The session contract of a file; without a session.yaml, one without rules."""
        if name not in self.files:
            if name != SESSION_FILE:
                return None
            return self._scope(Document(SESSION_FILE, {})), SessionContract(schema_version="1.0", agent="default")
        document = self._read(name)
        if document is None:
            return None
        loaded = load_model(document, SessionContract)
        if isinstance(loaded, list):
            self.diagnostics.extend(loaded)
            return None
        return self._scope(document), loaded

    def _tools(self, folder: str, session_files: set[str]) -> dict[str, ToolParts]:
        """The tools of one folder: of the contracts folder itself, or of a role next to its session file."""
        tools: dict[str, ToolParts] = {}
        for name in self.files:
            if folder_of(name) != folder or not name.endswith(".yaml") or name.endswith(".test.yaml"):
                continue
            if name in session_files or name == WORKFLOW_FILE:
                continue
            document = self._read(name)
            loaded = [] if document is None else load_model(document, ToolContract)
            if document is None or isinstance(loaded, list):
                self.diagnostics.extend(loaded if isinstance(loaded, list) else [])
                continue
            scope = self._scope(document)
            parts = build_tool(scope, loaded, self._schema(folder, loaded))
            self._take(scope)
            if loaded.tool in tools:
                self.diagnostics.append(document.error("DUPLICATE_TOOL", ("tool",), f"{loaded.tool!r} is in two files"))
            tools[loaded.tool] = parts
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

    def _case_inputs(self, tools: Iterable[ToolParts]) -> dict[str, Any]:
        """The JSON objects that golden cases name."""
        inputs: dict[str, Any] = {}
        for parts in tools:
            for index, case in enumerate(parts.contract.golden_cases):
                if case.input_ref is None:
                    continue
                value = read_case(self.files.get(case.input_ref))
                if value is None:
                    where = ("golden_cases", index, "input_ref")
                    message = f"{case.input_ref!r} is no JSON object in the folder"
                    self.diagnostics.append(parts.document.error("BAD_CASE_INPUT", where, message))
                else:
                    inputs[case.input_ref] = value
                self.used.add(case.input_ref)
        return inputs

    def _strays(self) -> None:
        for name in self.files:
            if name not in self.used and not name.endswith(".test.yaml"):
                self.diagnostics.append(error("UNEXPECTED_FILE", name, "belongs to no contract"))


def read_case(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object of a golden case's file, or None."""
    if data is None:
        return None
    try:
        value = loads_strict(data, max_bytes=limits.CONTRACT_FILE_BYTES)
    except StrictJSONError:
        return None
    return value if isinstance(value, dict) else None
