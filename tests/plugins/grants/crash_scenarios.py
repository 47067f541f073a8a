"""What the crash harness stops: a draft that a grant covers."""

from __future__ import annotations

from tests.crash.place import Place, announced, forked, problems_after
from tests.crash.scenarios import Scenario, recovered
from threegate.launch.context import open_context
from threegate.plugins.grants.giving import finished_request, new_grant
from threegate.plugins.grants.standing_grants import list_grants
from threegate.setup.settings_file import set_values
from threegate.trail.trail import Trail


def prepare_grant(place: Place) -> None:
    """A grant of one use, and a draft that it covers."""
    for name in ("changed", "looked"):
        (place.workspace.inbox / f"{place.ids.pop(name)}.md").unlink()
    set_values(place.workspace.settings_file, {"grants.allow": True})
    assert place.approve("runs") == 0
    assert forked(place.daemon) == 0
    context = open_context(place.workspace)
    approved = finished_request(context, place.ids["runs"])
    new_grant(context, approved, widened=[], max_uses=1, seconds=3600, name="operator", key=place.key)
    place.draft("again")
    place.save()


def after_grant(place: Place) -> list[str]:
    was_claimed = announced(place, "claimed", "again")
    wrong = recovered(place)
    ends = {"finished", "refused"} if was_claimed else {"finished"}
    wrong += problems_after(place, {"runs": {"finished"}, "again": ends})
    uses = [standing.uses for standing in list_grants(place.workspace, Trail(place.workspace))]
    return wrong if uses == [1] else [*wrong, f"the grant counts {uses} uses"]


SCENARIOS = {
    "grant": Scenario(prepare_grant, Place.daemon, after_grant, floor=(165, 380)),
}
