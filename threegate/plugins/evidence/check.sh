set -eu
# Whose word counts: the fingerprints that `threegate audit pack` printed. Compare them over another channel, or set your own.
LOG_KEYS="${LOG_KEYS-@LOG_KEYS@}"
OPERATOR_KEYS="${OPERATOR_KEYS-@OPERATOR_KEYS@}"
# Witnesses that must have cosigned the log (C2SP verifier keys, name+id+key, as `threegate serve witness` prints them); none by default.
WITNESS_KEYS="${WITNESS_KEYS-}"
export LOG_KEYS OPERATOR_KEYS WITNESS_KEYS LC_ALL=C TZ=UTC

# 1. Every file has the bytes that SHA256SUMS names.
sha256sum --strict --quiet --check SHA256SUMS

python3 -I - <<'CHECK'
import base64, hashlib, json, os, re, subprocess, sys, tempfile

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pymerkle import InclusionProof, InmemoryTree, verify_inclusion
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

sys.excepthook = lambda kind, error, _: print(f"WRONG: {kind.__name__}: {error}", file=sys.stderr)


def must(holds, what):
    if not holds:
        raise SystemExit("WRONG: " + what)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# 2. The log's keys: C2SP verifier keys, name+id+base64(0x01 and 32 bytes), each one that you trust.
ed25519, dsse_keys, names = {}, [], set()
for line in read("log-keys").splitlines(keepends=True):
    must(sha256(line) in os.environ["LOG_KEYS"].split(), f"log-keys: {line.decode()!r} is none of LOG_KEYS")
    name, key_id, encoded = line.decode().removesuffix("\n").split("+", 2)
    key = base64.b64decode(encoded, validate=True)
    must(key[:1] == b"\x01" and len(key) == 33, "log-keys: no Ed25519 key")
    must(sha256(name.encode() + b"\n" + key)[:8] == key_id, "log-keys: the key's id")
    ed25519[name, key_id] = Ed25519PublicKey.from_public_bytes(key[1:])
    dsse_keys.append(SSlibKey(f"{name}+{key_id}", "ed25519", "ed25519", {"public": key[1:].hex()}))
    names.add(name)
must(len(names) == 1, "log-keys: not of one workspace")
(origin,) = names


def note(file):
    """The lines of a C2SP signed note that a key of the log signed, in its one spelling."""
    text, blank, signatures = read(file).decode().partition("\n\n")
    *signatures, end = signatures.split("\n")
    must(blank and end == "" and signatures, f"{file}: no signed note")
    signed = False
    for line in signatures:
        mark, signer, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
        must(mark == "\u2014" and base64.b64encode(raw).decode() == encoded, f"{file}: a signature's form")
        if (key := ed25519.get((signer, raw[:4].hex()))) is not None:
            key.verify(raw[4:], text.encode() + b"\n")
            signed = True
    must(signed, f"{file}: no key of the log signed it")
    return text.split("\n")


# 3. SHA256SUMS is signed by the log's key and names every file: none was left out, added, or replaced by a link.
must(note("SHA256SUMS.note") == [origin, f"evidence sha256:{sha256(read('SHA256SUMS'))}"], "SHA256SUMS: not what was signed")
must(read("SHA256SUMS.note").count(b"\n") == 4, "SHA256SUMS.note: more than one signature")
sums = dict(reversed(line.split("  ./", 1)) for line in read("SHA256SUMS").decode().splitlines())
there = {os.path.join(place, name)[2:] for place, _, files in os.walk(".") for name in files}
must(there == {*sums, "SHA256SUMS", "SHA256SUMS.note", "HOW-TO-CHECK.md"}, "a file too many or too few")
must(not any(os.path.islink(os.path.join(place, name)) for place, some, files in os.walk(".") for name in [*some, *files]), "a link")

index = json.loads(read("index.json"))
must(index["type"] == "threegate-evidence/1" and origin == "threegate.local/" + index["workspace"], "index.json: of another workspace")
missing = {item["file"]: item["why"] for item in index["missing"]}
masked = {item["file"]: item["secrets"] for item in index["masked"]}
must(not any(".md.sig" in name or name.endswith(".intoto.json") for name in masked), "index.json: masks what is signed")


def is_there(name):
    """Whether the pack has a file that must be there: if not, its index has to say that it is missing or withheld."""
    must(name in sums or name in missing, f"{name}: is not there, and the index does not say why")
    return name in sums


def exact(name):
    """Whether the pack has the very bytes: in a file that had secrets, they are masked."""
    return is_there(name) and name not in masked


# 4. The trail: one RFC 6962 tree over its lines. Each checkpoint is signed and a state of this tree.
if index["checkpoint"] is None:
    must("checkpoints/" in missing, "index.json: names no checkpoint")
    raise SystemExit("WRONG: " + missing.get("trail.jsonl", missing["checkpoints/"]))
checkpoints = {}
for name in sorted(name for name in sums if name.startswith("checkpoints/")):
    about, size, root, *_ = note(name)
    must(about == origin, f"{name}: of another log")
    checkpoints[name] = (int(size), base64.b64decode(root, validate=True))
size, root = checkpoints[index["checkpoint"]]
for vkey in os.environ["WITNESS_KEYS"].split():
    witness, key_id, encoded = vkey.split("+", 2)
    key = base64.b64decode(encoded, validate=True)
    must(key[:1] == b"\x04" and sha256(witness.encode() + b"\n" + key)[:8] == key_id, f"WITNESS_KEYS: {witness}: no key of a witness")
    seen = 0
    for name in checkpoints:
        text, _, signatures = read(name).decode().partition("\n\n")
        for line in signatures.splitlines():
            _, signer, encoded = line.split(" ")
            raw = base64.b64decode(encoded)
            if (signer, raw[:4].hex()) == (witness, key_id):
                told = f"cosignature/v1\ntime {int.from_bytes(raw[4:12], 'big')}\n{text}\n".encode()
                Ed25519PublicKey.from_public_bytes(key[1:]).verify(raw[12:], told)
                seen = max(seen, checkpoints[name][0])
    must(seen, f"checkpoints/: none is cosigned by {witness}")
    print(f"{witness} cosigned the first {seen} events of this log")

events = []
tree = InmemoryTree(algorithm="sha256") if index["whole"] else None
with open("trail.jsonl", "rb") as lines, open("trail.jsonl" if index["whole"] else "proofs.jsonl", "rb") as proofs:
    for line, proof in zip(lines, proofs, strict=True):
        must(line.endswith(b"\n"), "trail.jsonl: its end was cut off")
        line = line[:-1]
        if index["whole"]:
            at = tree.append_entry(line) - 1
        else:
            at, path = (proof := json.loads(proof))["index"], proof["path"]
            # pymerkle wants to know at which levels the sibling is on the left (RFC 9162, 2.1.3.2); it checks what we say.
            node, last, left = at, size - 1, []
            while last:
                if node & 1 or node < last:
                    left.append(node & 1)
                node, last = node >> 1, last >> 1
            leaf = hashlib.sha256(b"\x00" + line).digest()
            hashes = [leaf, *(base64.b64decode(item, validate=True) for item in path)]
            proof = InclusionProof("sha256", True, size, at + 1, [*left, 0], hashes)
            verify_inclusion(leaf, root, proof, index=at + 1, size=size, algorithm="sha256")
        events.append(json.loads(line))
        must(events[-1]["seq"] == at + 1, f"trail.jsonl: event {at + 1} has another number")
        must(len(events) < 2 or events[-2]["seq"] <= at, "trail.jsonl: its events are not in order")
must(len(events) == index["events"], "trail.jsonl: another number of events than in the index")
if index["whole"]:
    must(tree.get_size() == size, "trail.jsonl: lines that the checkpoint does not cover")
    for name, (before, state) in checkpoints.items():
        must(before <= size and tree.get_root(before) == state, f"{name}: not a state of this trail")

# 5. The operators' files: each state that the trail recorded, with keys that you trust only.
OPERATOR = re.compile(  # this form only: what OpenSSH reads as the key must be what we look at
    r'[A-Za-z0-9][A-Za-z0-9._@+-]* (?:(?:cert-authority,)?namespaces="threegate-approval,threegate-act"|namespaces="threegate-approval,threegate-login")'
    r'(?:,valid-(?:after|before)="[0-9]+Z")* [a-z0-9@.-]+ (?P<key>[A-Za-z0-9+/]+=*)(?: [ -~]*)?'
)
ENDS = ("finished", "interrupted", "cancelled", "refused", "rejected")
of_request, nonces, uses, recorded = {}, set(), {}, (None, None, None)
for event in events:
    data = event["data"]
    if event["type"] in ("operator_added", "operator_revoked"):
        recorded = (data["operators_sha256"], data["revoked_sha256"], data.get("passkeys_sha256"))
        for digest in filter(None, recorded):
            if exact(f"operators/{digest}"):
                must(sums[f"operators/{digest}"] == digest, f"operators/{digest}: not what the trail recorded")
        if recorded[0] is not None and is_there(f"operators/{recorded[0]}"):
            for line in read(f"operators/{recorded[0]}").decode().split("\n"):
                if line and not line.startswith("#"):
                    must((found := OPERATOR.fullmatch(line)) is not None, f"operators/{recorded[0]}: a line of another form")
                    blob = base64.b64decode(found["key"], validate=True)
                    key = "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
                    must(key in os.environ["OPERATOR_KEYS"].split(), f"operators: {key} is none of OPERATOR_KEYS")
    elif event["request_id"] is not None and event["type"] != "quarantined":
        of_request.setdefault(event["request_id"], []).append((event, recorded))


def strings(data, count):
    """The first strings of SSH's wire form, and what is behind them."""
    found = []
    for _ in range(count):
        end = 4 + int.from_bytes(data[:4], "big")
        found, data = [*found, data[4:end]], data[end:]
    return *found, data


def site_of(armor):
    """Of a passkey, fingerprint and origin, which ssh-keygen does not look at; no origin when the user was not verified."""
    blob = base64.b64decode(b"".join(armor.splitlines()[1:-1]))
    key, _, _, _, value, _ = strings(blob[10:], 5)
    algorithm, _, rest = strings(value, 2)
    if not algorithm.startswith(b"webauthn-"):
        return None
    _, client_data, _ = strings(rest[5:], 2)
    client = json.loads(client_data)
    fine = rest[0] & 5 == 5 and not client.get("crossOrigin") and "topOrigin" not in client
    fingerprint = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"SHA256:{fingerprint}", client["origin"] if fine else ""


def pinned(digest):
    """Fingerprint and origin of each passkey."""
    lines = read(f"operators/{digest}").decode().splitlines() if digest else []
    return [(line.split(" ")[0], line.split(" ")[2]) for line in lines if line and line[0] != "#"]


def signed(name, namespace, recorded, *, by, at, batch=None):
    """The statement in the first line of a signature file, when OpenSSH says that this operator signed it at that time.

    `batch`: the digest of a list of statements that the line must be, and the index of the one that is meant.
    """
    line, _, armor = read(name).partition(b"\n")
    said, statement = json.loads(line), line
    if batch is not None:
        must(sha256(line) == batch[0] and said["type"] == "threegate-batch/1", f"{name}: not the batch that the trail names")
        said = said["statements"][batch[1]]
        statement = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    files = [f"operators/{digest}" for digest in recorded[:2] if digest is not None]
    if not all(is_there(f"operators/{digest}") for digest in recorded if digest is not None):
        return said, statement, ""
    with tempfile.NamedTemporaryFile() as file:
        file.write(armor)
        file.flush()
        moment = said[at].translate({ord(mark): None for mark in "-:TZ"})
        command = ["ssh-keygen", "-Y", "verify", "-n", namespace, "-I", said[by], "-O", f"verify-time={moment}"]
        command += ["-f", files[0], "-s", file.name, *(["-r", files[1]] if files[1:] else [])]
        done = subprocess.run(command, input=line, capture_output=True)
    must(done.returncode == 0, f"{name}: {done.stderr.decode().strip() or done.stdout.decode().strip()}")
    must(site_of(armor) in (None, *pinned(recorded[2])), f"{name}: a passkey's, from a site that is not pinned, or of nobody verified")
    return said, statement, done.stdout.decode()


# 6. Each request: who signed what, that this ran once, and what came of it.
how = {"operator": 0, "grant": 0, "nobody": 0}
runs = results = unsigned = 0
for entry in index["requests"]:
    request_id, folder = entry["request_id"], entry["folder"]
    digests, approval, countersigned, claims, end = {}, None, [], [], None
    for event, recorded in of_request[request_id]:
        kind, data = event["type"], event["data"]
        if end is not None:
            must(kind not in ("claimed", "approved"), f"{request_id}: went on after its end")
            continue
        if kind == "approved":
            approval, countersigned = (event, recorded), []
        elif kind == "approval_abandoned":
            approval, digests = None, {}
        elif kind == "countersigned":
            countersigned.append((event, recorded))
            digests.update(data.get("files") or {})
            continue
        elif kind == "claimed":
            claims.append(event)
        elif kind in ENDS:
            end = event
        if kind in ("approved", "claimed", *ENDS):
            if data.get("files") is not None:
                digests = dict(data["files"])
            elif data.get("request_sha256") is not None:
                digests = {**({} if kind == "approved" else digests), "": data["request_sha256"]}

    for suffix, digest in digests.items():
        if suffix == "" or suffix.startswith(".sig"):
            name = f"{folder}/request.md{suffix}"
            must(not exact(name) or sums[name] == digest, f"{name}: not what the trail names")

    # What was approved: a statement, signed by its operator over exactly this request. A request that was refused before it
    # ran may have been refused because its files are not those that were approved.
    approved = approval[0]["data"] if approval else {}
    signature = f"{folder}/request.md.sig"
    as_approved = bool(claims) or digests.get(".sig") == (approved.get("files") or {}).get(".sig", digests.get(".sig"))
    statement = None
    if approved.get("approval_sha256") and as_approved and is_there(signature):
        batch = (approved["batch_sha256"], approved["batch_index"]) if "batch_sha256" in approved else None
        said, statement, told = signed(signature, "threegate-approval", approval[1], by="approved_by", at="approved_utc", batch=batch)
        must(sha256(statement) == approved["approval_sha256"], f"{signature}: not the statement that the trail names")
        must(not told or not approved.get("key") or approved["key"] in told, f"{signature}: another key than the trail names")
        for key in ("request_sha256", "job_sha256", "policy_sha256", "approved_by", "nonce", "shown_sha256"):
            must(said.get(key) == approved.get(key), f"{signature}: {key} is not what the trail names")
        must((said["request_id"], said["workspace"]["id"]) == (request_id, index["workspace"]), f"{signature}: about another request")
        must(all(claim["time"][:19] < said["expires_utc"][:19] for claim in claims), f"{request_id}: claimed after its approval had expired")
        how["operator"] += 1
    elif approved.get("grant") and as_approved and is_there(signature):
        said, statement, told = signed(signature, "threegate-act", approval[1], by="acted_by", at="acted_utc")
        must(sha256(statement) == approved["grant"], f"{signature}: not the grant that the trail names")
        must(said["type"] == "threegate-grant/1" and said["workspace"]["id"] == index["workspace"], f"{signature}: no grant of this workspace")
        uses[approved["grant"]] = uses.get(approved["grant"], 0) + len(claims)
        must(uses[approved["grant"]] <= said["about"]["max_uses"], f"{signature}: used more often than it allows")
        must(all(claim["time"][:19] < said["about"]["expires_utc"][:19] for claim in claims), f"{request_id}: claimed after its grant had expired")
        how["grant"] += 1
    else:
        must(not approved or signature in missing or not claims, f"{request_id}: nobody signed it")
        how["nobody"] += 1
        unsigned += bool(claims)
    for event, recorded in countersigned:
        name = f"{folder}/request.md.sig.{event['data']['countersigned_by']}"
        if as_approved and is_there(name):
            said, further, told = signed(name, "threegate-approval", recorded, by="countersigned_by", at="countersigned_utc")
            covers = said.get("approvals", [said.get("approval_sha256")])
            must(event["data"]["approval_sha256"] == approved["approval_sha256"] in covers, f"{name}: about another approval")
    if approved.get("shown_sha256") and exact(f"{folder}/shown.txt"):
        must(sums[f"{folder}/shown.txt"] == approved["shown_sha256"], f"{folder}/shown.txt: not what was signed")

    # What ran is what was approved, and it ran once.
    must(len(claims) <= 1, f"{request_id}: claimed twice")
    for claim in claims:
        data = claim["data"]
        must(approval is None or approval[0]["seq"] < claim["seq"], f"{request_id}: claimed before it was approved")
        must(data["nonce"] is None or data["nonce"] not in nonces or data.get("grant"), f"{request_id}: its approval was used before")
        nonces.add(data["nonce"])
        for key in ("request_sha256", "job_sha256", "policy_sha256", "grant" if approved.get("grant") else "approval_sha256"):
            if approval is None:
                break  # put into approved/ by hand, unsigned
            must(data.get(key) == approved.get(key), f"{request_id}: {key} of the claim is not that of the approval")
        must(not exact(f"{folder}/request.md") or sums[f"{folder}/request.md"] == data["request_sha256"], f"{folder}/request.md: not what was claimed")
    if end is None:
        continue

    # What came of it. The record names the outputs by digest; they themselves are not in the pack.
    ended = end["data"]
    if is_there(f"{folder}/result.md"):
        results += 1
        if ended.get("result_sha256") and exact(f"{folder}/result.md"):
            must(sums[f"{folder}/result.md"] == ended["result_sha256"], f"{folder}/result.md: not what the trail names")
    if ended.get("record_sha256"):
        runs += 1
        if exact(f"{folder}/record.json"):
            must(sums[f"{folder}/record.json"] == ended["record_sha256"], f"{folder}/record.json: not what the trail names")
            record = json.loads(read(f"{folder}/record.json"))
            must(record["request_id"] == request_id, f"{folder}/record.json: of another run")
            for claim in claims:
                for key in ("request_sha256", "approval_sha256", "policy_sha256"):
                    must(record[key] == claim["data"][key], f"{folder}/record.json: {key} is not that of the claim")
        if end["type"] == "finished" and is_there(f"{folder}/run.intoto.json"):
            envelope = Envelope.from_dict(json.loads(read(f"{folder}/run.intoto.json")))
            envelope.verify(dsse_keys, 1)
            must(envelope.payload_type == "application/vnd.in-toto+json", f"{folder}/run.intoto.json: no in-toto statement")
            run = json.loads(envelope.payload)
            subject = {item["name"]: item["digest"]["sha256"] for item in run["subject"]}
            must(subject["record.json"] == ended["record_sha256"], f"{folder}/run.intoto.json: of another run")
            must(run["predicate"]["requestId"] == request_id, f"{folder}/run.intoto.json: of another request")
            must(run["predicate"]["trail"] == {"seq": end["seq"], "hash": end["hash"]}, f"{folder}/run.intoto.json: of another event")
            if exact(f"{folder}/record.json"):
                outputs = {"out/" + item["path"]: item["sha256"] for item in record["artifacts"]}
                must(outputs.items() <= subject.items(), f"{folder}/run.intoto.json: other outputs than in the record")
packed = {entry["request_id"] for entry in index["requests"]}
must(packed >= {name for name, told in of_request.items() if any(event["type"] == "claimed" for event, _ in told)}, "a run is not in the index")

# 7. What was in force: a policy has the digest that approvals name, and names its contracts by theirs.
for name in sums:
    if name.startswith(("policies/", "contracts/")) and name not in masked:
        must(sums[name] == name.split("/")[1].removesuffix(".json"), f"{name}: not the digest in its name")
    if name.startswith("policies/") and name not in masked:
        for digest in json.loads(read(name))["contracts"].values():
            is_there(f"contracts/{digest}")

print(
    f"checked: {len(packed)} requests ({how['operator']} signed by operators, {how['grant']} under grants, {how['nobody']} by nobody),"
    f" {runs} runs ({unsigned} without a signature), {results} results, {len(events)} events in a trail of {size}"
)
for name, secrets in masked.items():
    print(f"masked, so its digest was not checked: {name} ({', '.join(secrets)})")
for name, why in missing.items():
    print(f"MISSING: {name}: {why}", file=sys.stderr)
raise SystemExit(2 if missing else 0)
CHECK
