"""The lanes of tools that reach one public host: pages, a search page, a repository, one issue.

Invariant: the host comes from the verdict or from the settings and is public; a token is never part of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from threegate.core import limits
from threegate.core.settings import Settings
from threegate.plugins.changes.project import ProjectError
from threegate.plugins.proposals import era_code
from threegate.plugins.proposals.draft_plan import DraftPlan
from threegate.plugins.proposals.proposal_verdict import AllowedProposal
from threegate.plugins.proposals.section import ProposalSettings
from threegate.plugins.proposals.urls import URL, URLError, reach, read_url
from threegate.request.action import Command

_HITS: Final = 20


def _page(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.proposal.args
    reading = verdict.proposal.tool.name == "browser.extract"
    step = {"method": "GET", "url": verdict.urls["url"].text}
    given: dict[str, Any] = {
        "text": verdict.proposal.tool.name != "web.fetch",
        "selector": args.get("selector") if reading else None,
        "maxBytes": args.get("maxBytes", limits.PROPOSAL_WEB_BYTES),
    }
    return _web(verdict.urls["url"], [step], given, "reads one page of this host")


def _search(verdict: AllowedProposal, _primary: Mapping[str, bytes], settings: Settings) -> DraftPlan:
    args = verdict.args
    template = settings.section(ProposalSettings).search_url
    if "{query}" not in template:
        raise ProjectError("no search page is set; put proposals.search_url with {query} into threegate.toml")
    url = _public(template.replace("{query}", quote(args["query"], safe="")), "proposals.search_url")
    given: dict[str, Any] = {"text": True, "selector": None, "maxBytes": limits.PROPOSAL_WEB_BYTES}
    return _web(url, [{"method": "GET", "url": url.text}], given, "asks the search page that the operator named")


def _repository(verdict: AllowedProposal, _primary: Mapping[str, bytes], settings: Settings) -> DraftPlan:
    args = verdict.args
    base = f"{settings.section(ProposalSettings).github_api.rstrip('/')}/repos/{args['repo']}"
    url = _public(base, "proposals.github_api")
    places = [url.text]
    if args.get("includeIssues"):
        places.append(f"{url.text}/issues?{urlencode({'per_page': _HITS})}")
    if args.get("includeReleases"):
        places.append(f"{url.text}/releases?{urlencode({'per_page': _HITS})}")
    steps = [{"method": "GET", "url": place, "accept": "application/vnd.github+json"} for place in places]
    given: dict[str, Any] = {"text": False, "selector": None, "maxBytes": limits.PROPOSAL_WEB_BYTES}
    return _web(url, steps, given, "reads one public repository's facts")


def _create_issue(verdict: AllowedProposal, _primary: Mapping[str, bytes], settings: Settings) -> DraftPlan:
    args = verdict.args
    secret = settings.secrets.get("github")
    if secret is None:
        raise ProjectError("no token is named; put secrets.github with env or file into threegate.toml")
    url = _public(
        f"{settings.section(ProposalSettings).github_api.rstrip('/')}/repos/{args['repo']}/issues",
        "proposals.github_api",
    )
    if (secret.method, secret.host, secret.path) != ("POST", url.host, f"/repos/{args['repo']}/issues"):
        raise ProjectError(
            "secrets.github of threegate.toml is for another request; it must name host and path "
            "/repos/OWNER/NAME/issues"
        )
    body: dict[str, Any] = {"title": args["title"], "body": args["body"], "labels": args.get("labels", [])}
    # http: the run's proxy adds the token and speaks TLS to the host, so the run sees neither.
    step = {
        "method": "POST",
        "url": f"http://{url.host}{url.rest}",
        "body": body,
        "accept": "application/vnd.github+json",
    }
    given: dict[str, Any] = {"text": False, "selector": None, "maxBytes": limits.PROPOSAL_WEB_BYTES}
    return _web(url, [step], given, "creates one issue; the token is added by the proxy, outside of the run")


def _public(text: str, setting: str) -> URL:
    """A URL that the settings name, which must be public. Raises ProjectError."""
    try:
        url = read_url(text)
    except URLError as error:
        raise ProjectError(f"{setting} of threegate.toml: {error}") from None
    if reach(url) != "public":
        raise ProjectError(f"{setting} of threegate.toml does not name a public host; fix it")
    return url


def _web(url: URL, steps: list[dict[str, Any]], given: dict[str, Any], rationale: str) -> DraftPlan:
    outputs = [("/out/response.body", "what the server sent"), ("/out/response.json", "status and type")]
    if given["text"]:
        outputs.append(("/out/text.txt", "the readable text"))
    return DraftPlan(
        "ERA",
        action=Command(("python3", "/in/lane.py")),
        given={**given, "steps": steps, "timeout": limits.PROPOSAL_WEB_SECONDS // 2},
        derived={"lane.py": era_code.WEB.encode()},
        outputs=tuple(outputs),
        network=url,
        rationale=rationale,
        time_sec=limits.PROPOSAL_WEB_SECONDS,
        memory_mb=256,
        sensitivity="public",
    )


WEB_LANES: Final[Mapping[str, Callable[[AllowedProposal, Mapping[str, bytes], Settings], DraftPlan]]] = {
    "web.fetch": _page,
    "browser.open": _page,
    "browser.extract": _page,
    "web.search": _search,
    "github.repo_read": _repository,
    "github.issue_create_approved": _create_issue,
}
