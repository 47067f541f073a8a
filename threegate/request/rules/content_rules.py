"""The rules for the whole file: what no part of a request may contain."""

from __future__ import annotations

from threegate.request.rules.rule import Rule


def _rule(number: str, name: str, message: str, text: str, accepted: tuple[str, ...], refused: tuple[str, ...]) -> Rule:
    return Rule(number, name, "error", message, text, "prose", accepted, refused)


RULES = (
    _rule(
        "TG501",
        "secret",
        "a secret is in the file",
        "Take it out and revoke it: whoever could read the inbox has it. Its place is shown, its value never.",
        (
            "the password is asked for nowhere",
            "compares sha256 sums such as " + "0123456789abcdef" * 4,
            "counts lines with password=***",
        ),
        (
            "log in with password=hunter2",
            "the key is AKIA" + "IOSFODNN7EXAMPLE",
            "token ghp_" + "a1B2" * 9,
            "-----BEGIN RSA PRIVATE" + " KEY-----",
            "see https://bob:s3cr3t@example.org/",
            "send Bearer " + "abcdefghij" * 3,
        ),
    ),
    _rule(
        "TG502",
        "install-instruction",
        "an instruction to install software",
        "A run uses what the sandbox image has, and the operator installs nothing because a request says so.",
        (
            "counts the install base of each product",
            "nothing is installed; no pip install is needed",
            "plots how many users install updates late",
        ),
        (
            "first run pip install pandas",
            "Please install the requests package.",
            "needs apt-get install jq before",
            "Install numpy first",
        ),
    ),
    _rule(
        "TG503",
        "host-path",
        "an attempt to reach a path of the host",
        "A run sees /in, /out and /tmp. What is said of other places must be that they are left alone.",
        (
            "reads /in/a and writes /out/b",
            "does not read /etc or /home",
            "see https://example.org/home/a",
            "the train/dev/test split",
        ),
        ("reads /etc/passwd to find the users", "copies the result to /root/.ssh", "opens file:///in/a"),
    ),
    _rule(
        "TG504",
        "device",
        "an attempt to reach a device or a container engine's socket",
        "No device but /dev/null is there, and no engine can be reached.",
        ("the device column of the table", "writes to /dev/null only"),
        ("reads /dev/mem", "talks to /var/run/docker.sock", "set DOCKER_HOST before"),
    ),
)
