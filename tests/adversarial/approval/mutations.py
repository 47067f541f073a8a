"""Mutations of an approval that passes, by family; each comes with the reason code that it ends with."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.approval import material
from tests.approval.material import APPROVED, DATA, DATA_SHA, NOW, TTL, Approved
from threegate.approval import way
from threegate.approval.facts import LaunchFacts, PinnedFile
from threegate.approval.operators import load_operators
from threegate.approval.ssh_wire import NAMESPACE_ACT, MalformedError, render_armor
from threegate.approval.statement import Act, Countersignature, SignedBytes, StatementInput, render_signed
from threegate.core.settings import QuorumSettings
from threegate.request.action import Command
from threegate.request.job import JobInput


@dataclass(frozen=True)
class Mutation:
    """One thing that was changed, the facts of its launch, and what it must be refused with."""

    name: str
    facts: LaunchFacts
    code: str


def one(name: str, facts: LaunchFacts, code: str) -> Mutation:
    return Mutation(name, facts, code)


MALFORMED = "signature_file_malformed"


def signature_bytes(approved: Approved) -> Iterator[Mutation]:
    """Every byte of the signature file: flipped, and (every fourth) taken away or doubled."""
    data = approved.signature

    def changed(name: str, signature: bytes) -> Mutation:
        # A changed digit may still be a statement, one that nobody signed.
        code = material.code_of_changed(signature, approved.key)
        return one(name, approved.facts(signature=signature), code)

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        yield changed(f"flip {place}", bytes(flipped))
        if place % 4 == 0:
            yield changed(f"cut {place}", data[:place] + data[place + 1 :])
            yield changed(f"double {place}", data[: place + 1] + data[place:])
        if place % 16 == 0:
            yield one(f"truncate {place}", approved.facts(signature=data[:place]), MALFORMED)


def armor(approved: Approved) -> Iterator[Mutation]:
    """The same blob in other spellings, and more than one block: ssh-keygen takes several of these, we take none."""
    statement, _, block = approved.signature.partition(b"\n")
    lines = block.splitlines()
    body = b"".join(lines[1:-1])
    begin, end = lines[0] + b"\n", lines[-1] + b"\n"
    blob = base64.b64decode(body)
    spellings = {
        "no final newline": block[:-1],
        "two final newlines": block + b"\n",
        "carriage returns": block.replace(b"\n", b"\r\n"),
        "two blocks": block + block,
        "text after": block + b"# x\n",
        "text before": b"x\n" + block,
        "blank line before": b"\n" + block,
        "blank line inside": begin + b"\n" + body + b"\n" + end,
        "one line": begin + body + b"\n" + end,
        "blank at the end of a line": block.replace(b"\n", b" \n", 2),
        "tab in the body": block.replace(body[:10], b"\t" + body[:10]),
        "header in lower case": block.lower(),
        "no body": begin + end,
        "no end": block[: -len(end)],
        "not ASCII": block.replace(b"SSH", "ſSH".encode()),
        "padding missing": begin + body.rstrip(b"=") + b"\n" + end,
        "urlsafe alphabet": block.replace(b"/", b"_").replace(b"+", b"-"),
    }
    for columns in (1, 10, 64, 69, 71, 76, 77):
        cut = b"".join(body[at : at + columns] + b"\n" for at in range(0, len(body), columns))
        spellings[f"{columns} columns"] = begin + cut + end
    for name, spelled in spellings.items():
        if spelled != block:
            yield one(name, approved.facts(signature=render_signed(statement, spelled)), MALFORMED)
    blobs = {
        "a byte after the blob": blob + b"\x00",
        "a byte less": blob[:-1],
        "another magic": b"SSHSIH" + blob[6:],
        "version 2": blob[:6] + b"\x00\x00\x00\x02" + blob[10:],
        "version 0": blob[:6] + b"\x00\x00\x00\x00" + blob[10:],
        "empty": b"",
        "only a magic": blob[:6],
    }
    for name, changed in blobs.items():
        yield one(name, approved.facts(signature=render_signed(statement, render_armor(changed))), MALFORMED)


def statement_spelling(approved: Approved) -> Iterator[Mutation]:
    """The same statement in other JSON, signed by the right key: only the canonical bytes count."""
    text = approved.statement.to_bytes().decode()
    spellings = {
        "blank": text.replace(":", ": ", 1),
        "key twice": text.replace("{", '{"nonce":"' + "0" * 31 + '1",', 1),
        "unknown key": text.replace("{", '{"also":1,', 1),
        "escaped letter": text.replace("operator", "\\u006fperator"),
        "another type": text.replace("threegate-approval/2", "threegate-approval/3"),
        "epoch as text": text.replace('"epoch":1', '"epoch":"1"'),
        "epoch as a float": text.replace('"epoch":1', '"epoch":1.0'),
        "epoch true": text.replace('"epoch":1', '"epoch":true'),
        "epoch 0": text.replace('"epoch":1', '"epoch":0'),
        "nonce in capitals": text.replace("0" * 31 + "1", "0" * 30 + "AB"),
        "no shown text": text.replace(f'"shown_sha256":"{material.SHOWN}",', ""),
        "shown text null": text.replace(f'"{material.SHOWN}"', "null"),
        "shown text in version 1": text.replace("threegate-approval/2", "threegate-approval/1"),
        "a batch": text.replace("{", '{"batch":{"digest":"","index":0,"size":1},', 1),
        "short nonce": text.replace("0" * 31 + "1", "01"),
        "a list": f"[{text}]",
        "null": "null",
        "empty": "",
        "time with fraction": text.replace("10:05:00Z", "10:05:00.0Z"),
        "time with offset": text.replace("10:05:00Z", "10:05:00+00:00"),
        "arabic digit": text.replace("10:05:00Z", "1٠:05:00Z"),
        "day 31 of november": text.replace("2026-11-22T10:05", "2026-11-31T10:05"),
        "name with a pattern": text.replace('"approved_by":"operator"', '"approved_by":"*"'),
        "name null": text.replace('"approved_by":"operator"', '"approved_by":null'),
        "no inputs": text.replace(f'[{{"name":"data.csv","sha256":"{DATA_SHA}"}}]', "null"),
        "input without digest": text.replace(f',"sha256":"{DATA_SHA}"}}]', "}]"),
    }
    for name, spelled in spellings.items():
        assert spelled != text, name
        signature = material.signed(spelled.encode(), approved.key) if spelled else b"\n" + approved.signature
        yield one(name, approved.facts(signature=signature), MALFORMED)


def statement_fields(approved: Approved) -> Iterator[Mutation]:
    """Every field of the statement changed: with the old signature, and signed again by the right key."""
    changes: list[tuple[str, Any, str]] = [
        ("workspace_id", "ws-" + "1" * 32, "workspace_mismatch"),
        ("epoch", 2, "workspace_mismatch"),
        ("request_id", "req-2", "statement_mismatch"),
        ("request_id", "req-10", "statement_mismatch"),
        ("request_sha256", "0" * 64, "request_changed"),
        ("job_sha256", "0" * 64, "job_changed"),
        ("policy_sha256", "0" * 64, "policy_changed"),
        ("shown_sha256", "0" * 64, "shown_changed"),
        ("inputs", (), "statement_mismatch"),
        ("inputs", (StatementInput("data.csv", "0" * 64),), "statement_mismatch"),
        ("inputs", (StatementInput("other.csv", DATA_SHA),), "statement_mismatch"),
        ("inputs", (StatementInput("data.csv", DATA_SHA),) * 2, "statement_mismatch"),
        ("approved_by", "other", "signer_unknown"),
        ("approved_by", "Operator", "signer_unknown"),
        ("approved_utc", APPROVED + timedelta(seconds=1), "statement_mismatch"),
        ("approved_utc", APPROVED - timedelta(seconds=1), "statement_mismatch"),
        ("expires_utc", APPROVED, "expired"),
        ("expires_utc", APPROVED - timedelta(seconds=1), "expired"),
        ("expires_utc", NOW, "expired"),
        ("expires_utc", APPROVED + timedelta(seconds=TTL + 1), "expired"),
        ("expires_utc", APPROVED + timedelta(days=3650), "expired"),
    ]
    for field, value, code in changes:
        statement = replace(approved.statement, **{field: value}).to_bytes()
        resigned = material.signed(statement, approved.key)
        yield one(f"{field}={value} signed", approved.facts(signature=resigned), code)
        old = render_signed(statement, approved.signature.partition(b"\n")[2])
        expected = "signer_unknown" if field == "approved_by" else "signature_invalid"
        yield one(f"{field}={value} unsigned", approved.facts(signature=old), expected)
    yield one("nonce with the old signature",
              approved.facts(signature=render_signed(replace(approved.statement, nonce="f" * 32).to_bytes(),
                                                     approved.signature.partition(b"\n")[2])),
              "signature_invalid")  # fmt: skip


def request_bytes(approved: Approved, whole: bytes) -> Iterator[Mutation]:
    """Other bytes of the request: each flipped, cut or appended."""
    for place in range(0, len(whole), 6):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        request = material.make_request(data=bytes(flipped))
        yield one(f"request byte {place}", approved.facts(request=request), "request_changed")
    for extra in (b"\n", b" ", b"\x00", b"---\n"):
        yield one("appended", approved.facts(request=material.make_request(data=whole + extra)), "request_changed")


def job_fields(approved: Approved) -> Iterator[Mutation]:
    """Another parser, default or version gives the same bytes another meaning, in each field of the Job."""
    job = approved.job
    limits = job.limits
    changes: list[dict[str, Any]] = [
        {"backend": "ERA"},
        {"action": Command(("python3",))},
        {"action": job.action.changed(code="print(2)\n")},
        {"action": job.action.changed(code="")},
        {"action": job.action.changed(vars_json="{}")},
        {"workdir": "/out"},
        {"inputs": (JobInput("data.csv", DATA_SHA, len(DATA) + 1, False),)},
        {"inputs": (JobInput("data.csv", DATA_SHA, len(DATA), True),)},
        {"inputs": ()},
        {"outputs": ("/out/other.json",)},
        {"outputs": ()},
        {"network": ("example.com:443",)},
        {"environment": {"PATH": "/tmp"}},
        {"image": "sha256:" + "0" * 64},
        {"egress_image": "sha256:" + "0" * 64},
        {"runtime": "runsc"},
        {"seccomp_sha256": "0" * 64},
        {"tool": "t"},
        {"session_id": "s"},
        {"labels": ("a",)},
        {"workflow": "w"},
        {"role": "r"},
        {"requested_by": "else"},
        {"effective_risk": "medium"},
        {"effective_risk": "high"},
        {"data_sensitivity": "internal"},
        {"proposal_sha256": "0" * 64},
    ]
    for name in limits.__dataclass_fields__:
        value = getattr(limits, name)
        changes.append({"limits": replace(limits, **{name: "2" if isinstance(value, str) else value + 1})})
    for change in changes:
        yield one(f"job {change}", approved.facts(job=replace(job, **change)), "job_changed")


def times(approved: Approved) -> Iterator[Mutation]:
    """The clock everywhere outside of the time in which the approval holds."""
    for hours in range(1, 40):
        early = APPROVED - timedelta(seconds=61 + hours * 977)
        yield one(f"{hours} early", approved.facts(now=early), "not_yet_valid")
        late = APPROVED + timedelta(seconds=TTL + (hours - 1) * 3601)
        yield one(f"{hours} late", approved.facts(now=late), "expired")
        yield one(f"{hours} behind", approved.facts(clock_behind_sec=60.5 + hours), "clock_went_back")
        yield one(f"ttl {hours}", approved.facts(ttl_sec=hours * 2100), "expired")
    for name, created in (("a second", 1), ("a day", 86400)):
        request = replace(approved.request, created_utc=APPROVED + timedelta(seconds=created))
        yield one(f"created {name} after", approved.facts(request=request), "not_yet_valid")


def uses(approved: Approved) -> Iterator[Mutation]:
    """Used before, by nonce or by id; asked for by the approver; inputs gone or changed; too few operators."""
    yield one("nonce used", approved.facts(nonces=[approved.statement.nonce]), "replayed")
    yield one("id used", approved.facts(id_used=True), "replayed")
    yield one("recorded another approval", approved.facts(recorded_approval="0" * 64), "statement_mismatch")
    yield one("a copy under another name", approved.facts(recorded_file="TR-20261122-100000Z-other.md"),
              "statement_mismatch")  # fmt: skip
    for uid in range(20):
        facts = approved.facts(owner=uid, requesters={str(uid): "operator"})
        yield one(f"uid {uid} is the approver", facts, "self_approval")
    yield one("no pinned file", approved.facts(pinned={}), "input_missing")
    yield one("pinned under another name", approved.facts(pinned={"0" * 64: PinnedFile(len(DATA))}), "input_missing")
    for size in (0, 1, len(DATA) - 1, len(DATA) + 1, 2**40):
        yield one(f"pinned size {size}", approved.facts(pinned={DATA_SHA: PinnedFile(size)}), "input_changed")
    yield one("pinned digest", approved.facts(pinned={DATA_SHA: PinnedFile(len(DATA), "0" * 64)}), "input_changed")
    for needed in range(2, 17):
        yield one(f"quorum {needed}", approved.facts(quorum=QuorumSettings(low=needed)), "quorum_missing")


def operators_bytes(approved: Approved) -> Iterator[Mutation]:
    """Every byte of the operators file, unrecorded and recorded; lines that ssh-keygen would take and we do not."""
    data = approved.operators
    recorded = load_operators(data, None).digests
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        facts = approved.facts(operators=bytes(flipped))
        yield one(f"unrecorded {place}", replace(facts, recorded_operators=recorded), "operators_changed")
        if place % 2 == 0:
            code = "operators_changed" if facts.operators.problem else "signer_unknown"
            yield one(f"recorded {place}", facts, code)


def operator_lines(approved: Approved) -> Iterator[Mutation]:
    """Lines that ssh-keygen would take, skip or guess at, and that nobody may approve by."""
    good = approved.operators.decode()
    name, options, kind, key = good.split()
    lines = {
        "pattern *": f"* {options} {kind} {key}\n",
        "pattern ?": f"operato? {options} {kind} {key}\n",
        "two names": f"operator,root {options} {kind} {key}\n",
        "negated": f"!operator {options} {kind} {key}\n",
        "quoted name": f'"operator" {options} {kind} {key}\n',
        "no namespaces": f"{name} {kind} {key}\n",
        "any namespace": f'{name} namespaces="*" {kind} {key}\n',
        "one namespace": f'{name} namespaces="threegate-approval" {kind} {key}\n',
        "namespaces unquoted": f"{name} namespaces=threegate-approval,threegate-act {kind} {key}\n",
        "local date": f'{name} {options},valid-before="20991231" {kind} {key}\n',
        "no such date": f'{name} {options},valid-before="20990231Z" {kind} {key}\n',
        "ends before it begins": f'{name} {options},valid-after="20990101Z",valid-before="20980101Z" {kind} {key}\n',
        "unknown option": f"{name} {options},no-touch-required {kind} {key}\n",
        "option in capitals": f"{name} {options.upper()} {kind} {key}\n",
        "two blanks": f"{name}  {options} {kind} {key}\n",
        "tab": f"{name}\t{options} {kind} {key}\n",
        "blank at the start": f" {good}",
        "carriage return": good.replace("\n", "\r\n"),
        "no newline": good[:-1],
        "key twice": good + good.replace(name, "root", 1),
        "key twice, same name": good + good,
        "garbage after": good + "garbage\n",
        "garbage before": "garbage\n" + good,
        "key of another type": f"{name} {options} ssh-rsa {key}\n",
        "unknown type": f"{name} {options} ssh-dss {key}\n",
        "key cut": f"{name} {options} {kind} {key[:-4]}\n",
        "key with blanks": f"{name} {options} {kind} {key[:20]} {key[20:]}\n",
        "not ASCII": good.replace("\n", " ü\n"),
        "NUL": good.replace("\n", " \x00\n"),
        "escape": good.replace("\n", " \x1b[2J\n"),
        "comments only": "# nobody\n",
        "empty": "",
        "blank line only": "\n",
        "line too long": good.replace("\n", " " + "x" * 300_000 + "\n"),
        "unicode name": good.replace("operator", "оperator", 1),
        "base64 in another spelling": good.replace(key, key[:-1] + "\u003d"),
    }
    for label, text in lines.items():
        yield one(label, approved.facts(operators=text.encode()), "operators_changed")
    yield one("another name for the key", approved.facts(operators=good.replace("operator", "root", 1).encode()),
              "signer_unknown")  # fmt: skip


def swapped(approved: Approved, other_key: Path) -> Iterator[Mutation]:
    """Genuine signatures in the wrong place: another request's, another workspace's, another key's, another act's."""
    key = approved.key
    second = material.approve(key, material.make_request(data=b"another\n", request_id="req-2"), nonce="2" * 32)
    yield one("another request's", approved.facts(signature=second.signature), "statement_mismatch")
    yield one("this one's for another", second.facts(signature=approved.signature), "statement_mismatch")
    older = material.approve(key, material.make_request(data=b"an older version\n"))
    yield one("an older version's", approved.facts(signature=older.signature), "request_changed")
    foreign = material.approve(key, workspace_id="ws-" + "f" * 32)
    yield one("another workspace's", approved.facts(signature=foreign.signature), "workspace_mismatch")
    restored = material.approve(key, epoch=7)
    yield one("of another epoch", approved.facts(signature=restored.signature), "workspace_mismatch")
    statement = approved.statement.to_bytes()
    yield one("another key", approved.facts(signature=material.signed(statement, other_key)), "signer_unknown")
    both = approved.operators + material.line("other", other_key).encode()
    forged = replace(approved.statement, approved_by="other").to_bytes()
    yield one("another operator in the file", approved.facts(signature=material.signed(forged, other_key),
              operators=both), "statement_mismatch")  # fmt: skip
    yield one("another operator's key", approved.facts(signature=material.signed(statement, other_key),
              operators=both), "signer_unknown")  # fmt: skip
    for namespace in (NAMESPACE_ACT, "git", "file", "threegate-approval2", "threegate"):
        signed = material.signed(statement, key, namespace)
        yield one(f"namespace {namespace}", approved.facts(signature=signed), "signature_invalid")
    word = Countersignature("0" * 64, "operator", APPROVED, "0" * 32).to_bytes()
    yield one("a countersignature as an approval", approved.facts(signature=material.signed(word, key)), MALFORMED)
    act = Act("threegate-kill/1", material.WORKSPACE, 1, "operator", APPROVED, "0" * 32, {}).to_bytes()
    other_way = MALFORMED if way.WAYS.given() else way.NOT_JUDGED  # none without the plugin that brings it
    yield one("an act as an approval", approved.facts(signature=material.signed(act, key)), other_way)
    mixed = render_signed(statement, second.signature.partition(b"\n")[2])
    yield one("the signature of another statement", approved.facts(signature=mixed), "signature_invalid")
    yield one("no signature", approved.facts(signature=None), "signature_missing")
    yield one("empty signature file", approved.facts(signature=b""), MALFORMED)


def countersignatures(approved: Approved, other_key: Path) -> Iterator[Mutation]:
    """A second signature that is there and does not count is a refusal, not one signature less."""
    both = approved.operators + material.line("other", other_key).encode()
    digest = hashlib.sha256(approved.statement.to_bytes()).hexdigest()

    def facts(data: bytes, name: str = "other", **changes: Any) -> LaunchFacts:
        values: dict[str, Any] = {"operators": both, "quorum": QuorumSettings(low=2), **changes}
        return approved.facts(countersignatures={name: data}, **values)

    good = material.countersigned(digest, "other", other_key)
    yield one("for another approval", facts(material.countersigned("0" * 64, "other", other_key)),
              "statement_mismatch")  # fmt: skip
    yield one("under another name", facts(good, "third"), "statement_mismatch")
    yield one(
        "by the approver's key",
        facts(material.countersigned(digest, "other", approved.key)),
        "signer_unknown",
    )
    own = material.countersigned(digest, "operator", approved.key)
    yield one("by the approver", facts(own, "operator"), "quorum_missing")
    yield one("by nobody of ours", facts(good, operators=approved.operators), "signer_unknown")
    yield one("by the requester", facts(good, owner=5, requesters={"5": "other"}), "self_approval")
    yield one("with a used nonce", facts(good, nonces=["0" * 31 + "2"]), "replayed")
    same = material.countersigned(digest, "other", other_key, nonce=approved.statement.nonce)
    yield one("with the approval's nonce", facts(same), "replayed")
    for delta, code in ((timedelta(seconds=-1), "expired"), (timedelta(seconds=TTL), "not_yet_valid"),
                        (timedelta(seconds=400), "not_yet_valid")):  # fmt: skip
        late = material.countersigned(digest, "other", other_key, countersigned_utc=APPROVED + delta)
        yield one(f"countersigned {delta}", facts(late), code)
    many = {f"n{number}": good for number in range(17)}
    yield one("too many", approved.facts(countersignatures=many, operators=both), MALFORMED)
    yield one("one of three", facts(good, quorum=QuorumSettings(low=3)), "quorum_missing")
    yield one("an approval as a countersignature", facts(approved.signature), MALFORMED)


def countersigner_of(data: bytes) -> str:
    return Countersignature.parse(SignedBytes.parse(data).statement).countersigned_by


def countersignature_bytes(approved: Approved, other_key: Path) -> Iterator[Mutation]:
    """Every other byte of a countersignature flipped."""
    both = approved.operators + material.line("other", other_key).encode()
    digest = hashlib.sha256(approved.statement.to_bytes()).hexdigest()

    def facts(data: bytes, name: str = "other", **changes: Any) -> LaunchFacts:
        values: dict[str, Any] = {"operators": both, "quorum": QuorumSettings(low=2), **changes}
        return approved.facts(countersignatures={name: data}, **values)

    good = material.countersigned(digest, "other", other_key)
    for place in range(0, len(good), 2):
        flipped = bytearray(good)
        flipped[place] ^= 1
        code = material.code_of_changed(bytes(flipped), other_key, countersigner_of, "other")
        with suppress(MalformedError):
            word = Countersignature.parse(SignedBytes.parse(bytes(flipped)).statement)
            if (word.countersigned_by, word.approval_sha256) != ("other", digest):
                code = "statement_mismatch"
        yield one(f"countersignature byte {place}", facts(bytes(flipped)), code)


def unsigned(approved: Approved) -> Iterator[Mutation]:
    """`signature = "optional"`: everything that still needs a signature, and what time and use forbid."""
    base: dict[str, Any] = {"signature": None, "mode": "optional"}
    needs: list[dict[str, Any]] = [
        {"quorum": QuorumSettings(low=2)},
        {"was_approved": True},
        {"countersignatures": {"other": b"x"}},
        {"job": replace(approved.job, effective_risk="medium")},
        {"job": replace(approved.job, effective_risk="high")},
        {"job": replace(approved.job, network=("example.com:443",))},
        {"request": replace(approved.request, approved_by=None)},
        {"request": replace(approved.request, approved_by="")},
        {"request": replace(approved.request, approved_utc=None)},
    ]
    for change in needs:
        yield one(f"unsigned {list(change)}", approved.facts(**base, **change), "signature_missing")
    yield one("unsigned, late", approved.facts(**base, now=APPROVED + timedelta(seconds=TTL)), "expired")
    yield one("unsigned, early", approved.facts(**base, now=APPROVED - timedelta(seconds=61)), "not_yet_valid")
    void = frozenset([approved.request.sha256]).__contains__
    yield one("unsigned, void", approved.facts(**base, is_void=void), "approval_void")
    yield one("unsigned, used", approved.facts(**base, id_used=True), "replayed")
    yield one("unsigned, nonce used", approved.facts(**base, nonces=[approved.request.sha256[:32]]), "replayed")
    yield one("unsigned, not pinned", approved.facts(**base, pinned={}), "input_missing")
    own = replace(approved.request, requested_by="operator")
    yield one("unsigned, own", approved.facts(**base, request=own), "self_approval")
    base["signature"] = b"x\n"
    yield one("a broken signature is no missing one", approved.facts(**base), MALFORMED)
