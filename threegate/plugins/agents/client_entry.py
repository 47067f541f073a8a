"""The MCP entry in an agent's own configuration, for people who run it without the jail: planned, written, undone.

Invariant: existing settings keep their meaning, and the old bytes are kept next to the file; another entry with the
same name is never replaced. Undoing restores the old bytes or changes nothing.
"""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.screen_parts import FileDiff
from threegate.review.text_change import text_change

_NAME: Final = "threegate"
_KEPT: Final = ".before-threegate"


@dataclass(frozen=True, slots=True)
class ClientEntry:
    """The file before and after. `before` is None if there is no file; `after` equals it if there is nothing to do."""

    file: Path
    before: bytes | None
    after: bytes

    @classmethod
    def plan(cls, file: Path, entry: str) -> ClientEntry:
        """The file with the entry. Raises InvalidInput, with what to do, if it cannot be added without loss."""
        file = _place(file)
        before = _read(file)
        return cls(file, before, _with_entry(file, before, entry))

    @property
    def change(self) -> FileDiff:
        """What is written, to be shown."""
        text = text_change((self.before or b"").decode(), self.after.decode())
        return FileDiff("ADDED" if self.before is None else "MODIFIED", str(self.file), text=text)

    def write(self) -> Path | None:
        """Write it; return where the old bytes are kept, None if there was no file. Raises InvalidInput, OSError."""
        if _read(self.file) != self.before:
            raise InvalidInput(f"{self.file}: changed meanwhile; check it and try again")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self.before is None:
            durable.overwrite(self.file, self.after)
            return None
        kept = _kept(self.file)
        mode = self.file.stat().st_mode & 0o777
        durable.overwrite(kept, self.before, mode)
        durable.overwrite(self.file, self.after, mode)
        return kept


def take_back(file: Path, entry: str) -> bool:
    """Undo `write`; False if the entry is not there. Raises InvalidInput if the file has changed since, OSError."""
    file = _place(file)
    now, kept = _read(file), _kept(file)
    before = _read(kept)
    if now is None or _NAME not in now.decode():
        return False
    if now != _with_entry(file, before, entry):
        raise InvalidInput(
            f"{file}: changed since the entry was written; remove {_NAME} from it by hand"
            + ("" if before is None else f" ({kept} has the old content)")
        )
    if before is None:
        durable.unlink(file)
    else:
        durable.replace(kept, file)
        durable.sync_folder(file.parent)
    return True


def _place(file: Path) -> Path:
    """Where the bytes are: a configuration is often a link into a folder of dotfiles."""
    return file.expanduser().resolve()


def _kept(file: Path) -> Path:
    return file.with_name(file.name + _KEPT)


def _read(file: Path) -> bytes | None:
    try:
        data = durable.read_regular(file, max_bytes=limits.CLIENT_SETTINGS_BYTES)
        data.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise InvalidInput(f"{file}: cannot be read as text ({why})") from None
    return data


def _with_entry(file: Path, before: bytes | None, entry: str) -> bytes:
    """The file's bytes with the entry in place."""
    is_toml = file.suffix == ".toml"
    there, ours = _value(file, before or b"", is_toml=is_toml), _value(file, entry.encode(), is_toml=is_toml)
    [(table, servers)] = ours.items()
    known = there.get(table, {})
    if not isinstance(known, dict):
        raise InvalidInput(f"{file}: {table} is not a table of servers; add the entry by hand")
    if _NAME in known:
        if known[_NAME] == servers[_NAME] and before is not None:
            return before
        raise InvalidInput(f"{file}: already has another server named {_NAME}; remove that first")
    wanted = {**there, table: {**known, **servers}}
    if not is_toml:
        return (json.dumps(wanted, indent=2, ensure_ascii=False) + "\n").encode()
    text = (before or b"").decode()  # appended, so that comments and order stay
    after = f"{text.rstrip()}\n\n{entry.strip()}\n".lstrip().encode()
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(after.decode()) == wanted:
            return after
    raise InvalidInput(f"{file}: the entry cannot be appended; add it by hand")


def _value(file: Path, data: bytes, *, is_toml: bool) -> dict[str, Any]:
    try:
        value = tomllib.loads(data.decode()) if is_toml else json.loads(data or b"{}", object_pairs_hook=_once)
    except (ValueError, RecursionError):
        kind = "TOML" if is_toml else "JSON without comments"
        raise InvalidInput(f"{file}: is not {kind}; add the entry by hand") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{file}: is not a JSON object; add the entry by hand")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # json keeps the last one: the file would lose the others when it is written.
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)
