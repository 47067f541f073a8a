"""A server of tools in its jail, below the service, under a real systemd."""

from __future__ import annotations

import json

import pytest

from tests.plugins.tools.notes_server import CALL
from tests.setup.booted import Machine
from tests.setup.test_systemd import WS, events, journal, pytestmark, threegate  # noqa: F401 - the marks
from tests.support import now_text, request_id, wait_until

NODE_SERVER = """
const fs = require('fs'), os = require('os')
const tools = [{name: 'look', inputSchema: {type: 'object'}}]
const seen = path => { try { return fs.readdirSync(path).length } catch (error) { return error.code } }
const answers = {
  initialize: () => ({protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'look', version: '1'}}),
  'tools/list': () => ({tools}),
  'tools/call': () => ({content: [{type: 'text', text: JSON.stringify({
    workspace: seen('/var/lib/gate/ws'), keys: seen('/etc/ssh'), links: Object.keys(os.networkInterfaces()), uid: process.getuid(),
    compiled: new Function('x', 'return x + 1')(1),
  })}]}),
}
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method} = JSON.parse(line)
  if (answers[method]) console.log(JSON.stringify({jsonrpc: '2.0', id, result: answers[method]()}))
})
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="monty"), pytest.param(("--era",), id="era", marks=pytest.mark.soak)],
)
def test_a_server_of_tools_runs_in_its_jail_below_the_service(machine: Machine, options: tuple[str, ...]) -> None:
    """Node under bubblewrap under the hardened unit, as the service's account and as root's `nobody`."""
    name, server = ("gate-era", "seen") if options else ("gate", "look")
    account = "" if options else "threegate"
    program = machine.root / "opt" / server / "server.js"
    program.parent.mkdir(parents=True)
    program.write_text(NODE_SERVER)
    threegate(
        machine, "settings", "service", "install", *options, "--yes", "--name", name
    )  # it hands the workspace over
    machine.run("systemctl", "stop", name)
    key = "/var/lib/threegate/key" if account else "/var/lib/gate/key"
    if account:
        machine.run("cp", "/var/lib/gate/key", "/var/lib/gate/key.pub", "/var/lib/threegate/")
        machine.run("chown", account, key, f"{key}.pub")
    signing = ("--as", "operator", "--key", key, "--yes")
    words = ("tools", "add", server, *signing, "--", "/usr/bin/node", f"/opt/{server}/server.js")
    threegate(machine, *words, account=account)
    threegate(machine, "settings", "service", "install", *options, "--yes", "--name", name)
    assert "RestrictNamespaces=no" in machine.run("cat", f"/etc/systemd/system/{name}.service").stdout
    (row,) = (
        row
        for row in json.loads(threegate(machine, "tools", "list", "--json", account=account).stdout)["servers"]
        if row["server"] == server
    )
    rid = request_id(server)
    text = CALL.format(
        request_id=rid, now=now_text(), server=server, tool="look", digest=row["manifest_sha256"], time_sec=60,
        arguments="{}",
    )  # fmt: skip
    draft = WS / "inbox" / f"{rid}.md"
    (machine.root / str(draft).lstrip("/")).write_text(text)
    threegate(machine, "approve", str(draft), *signing, account=account)
    out = machine.root / f"{WS}/tool-exec/runs/{rid}/out/result.json".lstrip("/")
    wait_until(lambda: any(event["request_id"] == rid for event in events(machine, "finished")))
    (ended,) = (event["data"] for event in events(machine, "finished") if event["request_id"] == rid)
    assert ended["status"] == "succeeded", (ended, journal(machine, name))  # type: ignore[index]
    seen = json.loads(json.loads(out.read_text())["content"][0]["text"])
    assert seen == {"workspace": "ENOENT", "keys": "ENOENT", "links": ["lo"], "uid": 1000, "compiled": 2}
    threegate(machine, "settings", "service", "uninstall", "--yes", "--name", name)
