"""Two plain facts about a request: whether all code that runs is on the screen (opacity), and what it can reach.

Invariant: pure, and opaque unless a closed rule says transparent: the code of a monty request, a data tool
with harmless options only, or an interpreter that runs one pinned script. A transparent request runs only the
code in it and in the inputs named by `scripts`, which must be shown in full; anything these load themselves
(``exec``) is visible there. Effective risk follows from both (docs/spec/2-approval.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from threegate.core.secretscan.scan import mask_secrets
from threegate.request.command.data_tools import why_opaque
from threegate.request.command.pinned_script import script_word

Opacity = Literal["transparent", "opaque"]

NETWORK_REACHED: Final = "network "
"""How a reach begins that is a host, with a port where the request names one."""
SECRETS_REACHED: Final = "secret "
"""How a reach begins that is a secret's name in the settings."""
EXPOSURE_KEYS: Final = ("opacity", "opacity_reason", "scripts", "reach")
"""How reports, verdicts and `status --json` name the facts."""
# Endings of inputs that no interpreter of the table loads as code by itself.
_DATA: Final = frozenset(
    """csv tsv psv json jsonl ndjson geojson txt text md rst log ini cfg conf toml yaml yml xml html htm
    svg css diff patch png jpg jpeg gif webp tif tiff bmp pdf parquet feather arrow avro npy wav mp3 mp4
    dat bib srt ics vcf""".split()
)
# Which secret the proxy adds to the run of a proposal for a tool.
_SECRETS: Final[Mapping[str, str]] = {"github.issue_create_approved": "github"}
# Endings of inputs that a script may load as code and that can be read on a screen.
_SOURCE: Final = frozenset("py js mjs cjs pl pm rb awk sed jq".split())


class Input(Protocol):
    """An input of a request or of a Job."""

    @property
    def name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def unpack(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Exposure:
    """Both facts. `why` is one line for the opacity, `scripts` are names of inputs, `reach` is empty for nothing."""

    opacity: Opacity = "opaque"
    why: str = "nothing was judged"
    scripts: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()

    @property
    def opaque(self) -> bool:
        """Whether code may run that is not on the screen."""
        return self.opacity == "opaque"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets among what it reaches."""
        return tuple(item.removeprefix(SECRETS_REACHED) for item in self.reach if item.startswith(SECRETS_REACHED))

    def with_secret(self, name: str | None) -> Exposure:
        """The same, with a secret that the run's proxy adds, by its name in the settings."""
        return self if name is None else replace(self, reach=(*self.reach, f"{SECRETS_REACHED}{name}"))

    def reaching(self, more: Iterable[str]) -> Exposure:
        """The same, with more that it can reach."""
        return replace(self, reach=(*self.reach, *more))

    def with_unread(self, unread: Collection[str]) -> Exposure:
        """The same, opaque where a script is among the inputs that the full screen does not show whole."""
        for name in self.scripts:
            if name in unread:
                return replace(self, opacity="opaque", why=f"{name} cannot be shown whole")
        return self


def secret_name(tool: str | None, proposal_sha256: str | None) -> str | None:
    """The name of the secret that a run uses through its proxy; None for a run that uses none."""
    return None if proposal_sha256 is None else _SECRETS.get(tool or "")


def exposure_json(exposure: Exposure | None) -> dict[str, Any]:
    """The facts as reports and verdicts carry them; each is null for a file that is not a valid request."""
    if exposure is None:
        return dict.fromkeys(EXPOSURE_KEYS)
    values = (exposure.opacity, exposure.why, list(exposure.scripts), list(exposure.reach))
    return dict(zip(EXPOSURE_KEYS, values, strict=True))


def exposure_lines(exposure: Exposure) -> tuple[str, str]:
    """One line for each fact, without its label: ``opaque (…)`` and ``network a:443; secret b``, or ``nothing``."""
    return f"{exposure.opacity} ({exposure.why})", "; ".join(exposure.reach) or "nothing"


def command_exposure(argv: Sequence[str], workdir: str, inputs: Sequence[Input]) -> Exposure:
    """The opacity alone, of a command with its inputs."""
    script = script_word(argv)
    if script is None:
        why = mask_secrets(why_opaque(argv))
        return Exposure("opaque" if why else "transparent", why or "a data tool with harmless options")
    # A bare name is looked for in the workdir, and elsewhere than in /in it is another file.
    name = script.removeprefix("/in/") if workdir == "/in" or script.startswith("/in/") else ""
    if not any(item.name == name and not item.unpack for item in inputs):
        return Exposure("opaque", "the script is not a declared input")
    scripts = [name]
    for item in inputs:
        ending = item.name.rpartition(".")[2].lower()
        if item.unpack:
            return Exposure("opaque", f"{item.name} is unpacked beside the script")
        if ending in _SOURCE:
            scripts.append(item.name)
        elif ending not in _DATA:
            return Exposure("opaque", f"{item.name} beside the script may be code")
    return Exposure("transparent", f"{name} is an input to be read whole", tuple(dict.fromkeys(scripts)))
