"""The extras: each module is of the extra that brings it, and a missing one is one line."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import get_args

import pytest

from threegate.core import extras
from threegate.core.errors import Unavailable

_ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_EXTRAS = _PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    """The distributions of requirements, as PEP 503 writes them."""
    return {re.split(r"[\[<>=~!; ]", item)[0].lower().replace("_", "-") for item in requirements}


def test_every_extra_is_known_and_its_modules_are_what_it_installs() -> None:
    assert set(get_args(extras.Extra)) == set(extras.MODULES)
    assert set(_EXTRAS) == {*extras.MODULES, "all", "docs", "bench", "dev"}
    brings = packages_distributions()
    for extra, modules in extras.MODULES.items():
        for module in modules:
            found = {name.lower().replace("_", "-") for name in brings[module]}
            assert found & names(_EXTRAS[extra]), f"{module} is not of {extra}"
            assert not found & names(_PROJECT["dependencies"]), f"{module} is always there"


def imported() -> set[str]:
    """The top-level modules that the package imports and does not bring or have from Python."""
    found = set()
    for path in (_ROOT / "threegate").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"threegate"}


def test_what_is_installed_is_imported_and_what_is_imported_is_installed() -> None:
    """`pydantic_core` and their like come with what is required: the distribution that requires them is ours."""
    extra = names([item for extra in extras.MODULES for item in _EXTRAS[extra]])
    required = names(_PROJECT["dependencies"]) | extra
    come = {name: {name} | names(requires(name) or []) for name in required}
    brings = packages_distributions()
    hollow = required - {name.lower().replace("_", "-") for found in brings.values() for name in found}
    used = {module: {name.lower().replace("_", "-") for name in brings[module]} for module in imported()}
    in_use = set().union(*used.values())
    assert [name for name in required - in_use if name not in hollow or not come[name] & in_use] == [], "not imported"
    all_that_comes = set().union(*come.values())
    assert [module for module, found in used.items() if not found & all_that_comes] == [], "not required"


def test_all_has_every_extra() -> None:
    [all_of_them] = _EXTRAS["all"]
    assert all_of_them == f"threegate[{','.join(extras.MODULES)}]"


def test_what_is_there_is_not_complained_about() -> None:
    for extra in extras.MODULES:
        assert extras.has_extra(extra), extra
        extras.require_extra("this", extra)


def test_what_is_missing_is_one_line_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    assert extras.missing_modules("era", "http") == ("docker",)
    assert extras.missing_extra("ERA", "era", "http") == "ERA needs the extra era: pip install 'threegate[era]'"
    monkeypatch.setitem(extras.MODULES, "http", ("no_such_module",))  # type: ignore[misc]
    with pytest.raises(Unavailable, match=r"^This needs the extras era and http: pip install 'threegate\[era,http\]'$"):
        extras.require_extra("This", "era", "mcp", "http")


def test_the_line_is_one_of_the_tool_that_made_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/whole/packaging/test_install_lines.py types those of pip and pipx, as docs/install.md has them."""
    environment = tmp_path / "threegate"
    environment.mkdir()
    monkeypatch.setattr(sys, "prefix", str(environment))
    assert extras.install_line("tui", "mcp") == "pip install 'threegate[tui,mcp]'"
    (environment / "pipx_metadata.json").write_text("{}")
    assert extras.install_line("tui") == "pipx runpip threegate install 'threegate[tui]'"
    (environment / "pipx_metadata.json").unlink()
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.5\nversion_info = 3.11.2\n")
    assert extras.install_line("tui") == f"uv pip install --python {environment} 'threegate[tui]'"
    (environment / "uv-receipt.toml").write_text("[tool]\n")
    monkeypatch.setattr(extras, "MODULES", {"http": ("json",), "mcp": ("no_such_module",), "tui": ("no_such_module",)})
    assert extras.install_line("tui") == "uv tool install 'threegate[http,tui]'", "what is there stays"
