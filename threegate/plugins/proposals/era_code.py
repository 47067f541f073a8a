"""The programs of the ERA lanes (git and web), pinned as `lane.py`. Constants, like those of the Monty lanes.

Invariant: a program reads /in, writes /out and prints what CORE may see; it starts git with the environment
that every run has, or uses the run's proxy, and no text of a proposal ever becomes code or an option.
"""

from __future__ import annotations

from typing import Final

GIT: Final = '''\
"""Reads a repository's snapshot: status, diff or log, into /out."""

import json
import os
import shutil
import subprocess
import sys

given = json.load(open("/in/args.json", encoding="utf-8"))["given"]
withheld = json.load(open("/in/withheld.json", encoding="utf-8"))
project = "/in/project"
shutil.copyfile(project + "/.git/index", "/tmp/index") if os.path.exists(project + "/.git/index") else None
environment = {**os.environ, "GIT_INDEX_FILE": "/tmp/index", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
git = ["git", "--no-pager", "-C", project]
names = subprocess.run([*git, "ls-files", "-z"], env=environment, stdout=subprocess.PIPE, check=True).stdout
hidden = {path.encode("utf-8", "surrogateescape") for path, _ in withheld}
absent = [name for name in names.split(b"\\0") if name and not os.path.lexists(os.path.join(project.encode(), name))]
inside = [name for name in absent if any(name == path or name.startswith(path + b"/") for path in hidden)]
if inside:
    subprocess.run(
        [*git, "update-index", "-z", "--skip-worktree", "--stdin"],
        env=environment, input=b"\\0".join(inside) + b"\\0", check=True,
    )
limit = given["maxBytes"]
here = ":(top,literal)" + given["path"] if given["path"] != "." else ":(top)"
without = [":(top,exclude,icase,glob)**/" + pattern for pattern in given["protected"]]
plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"]
if given["verb"] == "status":
    arguments, out = ["status", "--porcelain=v1", "--branch", "--untracked-files=all", "--", here, *without], "status.txt"
elif given["verb"] == "diff":
    staged = ["--cached"] if given["staged"] else []
    arguments, out = ["diff", *plain, *staged, "--", here, *without], "diff.patch"
else:
    form = "--format=%H %aI %an%n    %s"
    arguments, out = ["log", "--no-color", "--no-decorate", "-n", str(given["limit"]), form], "log.txt"
done = subprocess.run([*git, *arguments], env=environment, stdout=subprocess.PIPE)
data = done.stdout[:limit]
with open("/out/" + out, "wb") as file:
    file.write(data)
sys.stdout.write(data.decode("utf-8", "replace"))
if len(data) < len(done.stdout):
    print("... cut after", limit, "bytes")
sys.exit(done.returncode)
'''  # noqa: E501

WEB: Final = '''\
"""Asks for the pages that were approved, through the run's proxy, into /out."""

import html.parser
import json
import re
import sys
import urllib.error
import urllib.request

given = json.load(open("/in/args.json", encoding="utf-8"))["given"]


class Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is reported, not followed: another place needs another approval."""

    def redirect_request(self, *_):
        return None


class Text(html.parser.HTMLParser):
    """The visible text of a page, or of the first element that a simple selector names."""

    VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

    def __init__(self, selector):
        super().__init__(convert_charrefs=True)
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9]*)?((?:[#.][A-Za-z0-9_-]+)*)", selector or "")
        self.known = match is not None
        self.tag = (match[1] or "").lower() if match else ""
        self.marks = re.findall(r"([#.])([A-Za-z0-9_-]+)", match[2]) if match else []
        self.wanted = bool(self.known and (self.tag or self.marks))
        self.depth = 0
        self.silent = 0
        self.done = False
        self.parts = []

    def matches(self, tag, attributes):
        values = dict(attributes)
        classes = (values.get("class") or "").split()
        return (not self.tag or tag == self.tag) and all(
            values.get("id") == name if mark == "#" else name in classes for mark, name in self.marks
        )

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "style", "template", "noscript"):
            self.silent += 1
        if tag in self.VOID:
            return
        if self.depth:
            self.depth += 1
        elif self.wanted and not self.done and self.matches(tag, attributes):
            self.depth = 1

    def handle_endtag(self, tag):
        if tag in ("script", "style", "template", "noscript"):
            self.silent = max(self.silent - 1, 0)
        if self.depth and tag not in self.VOID:
            self.depth -= 1
            self.done = self.done or not self.depth

    def handle_data(self, data):
        if not self.silent and (self.depth or not self.wanted):
            self.parts.append(data)

    def text(self):
        return "\\n".join(line for line in (" ".join(part.split()) for part in self.parts) if line)


opener = urllib.request.build_opener(Stay)
failed = False
for number, step in enumerate(given["steps"]):
    body = json.dumps(step["body"]).encode() if "body" in step else None
    headers = {"User-Agent": "threegate", "Accept": step.get("accept", "*/*")}
    if body is not None:
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(step["url"], data=body, headers=headers, method=step["method"])
    try:
        answer = opener.open(request, timeout=given["timeout"])
    except urllib.error.HTTPError as error:
        answer = error
    except OSError as error:
        print("could not be reached:", getattr(error, "reason", error))
        failed = True
        continue
    data = answer.read(given["maxBytes"] + 1)
    cut = len(data) > given["maxBytes"]
    data = data[: given["maxBytes"]]
    stem = "/out/response" if number == 0 else "/out/response-" + str(number)
    with open(stem + ".body", "wb") as file:
        file.write(data)
    facts = {
        "url": step["url"], "status": answer.status, "type": answer.headers.get("Content-Type"),
        "location": answer.headers.get("Location"), "bytes": len(data), "cut": cut,
    }
    text = data.decode(answer.headers.get_content_charset() or "utf-8", "replace")
    if given["text"]:
        page = Text(given["selector"])
        page.feed(text)
        text = page.text()
        facts["selector"] = "read" if page.known else "not understood: the whole page was taken"
        with open("/out/text.txt", "w", encoding="utf-8") as file:
            file.write(text)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    print(answer.status, step["method"], step["url"])
    print(text)
    failed = failed or answer.status >= 300
sys.exit(1 if failed else 0)
'''
