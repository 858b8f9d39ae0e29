"""What others may publish of a unit of work: whether it hangs together, and what of it is kept."""

from __future__ import annotations

from generated.field_errors import MAX_ERRORS, FieldError, field_error
from generated.models import PublishedSnapshot, PutAgentRunSnapshotRequest, SnapshotRef, SnapshotTerminal
from handlers import wording
from handlers.shape import is_terminal, shown_ref


def findings(snapshot_id: str, body: PutAgentRunSnapshotRequest) -> list[FieldError]:
    """What does not go together in a unit, or may not be shown; none when it can be kept."""
    snapshot, live = body["snapshot"], body.get("live", {})
    found = []
    if is_terminal(snapshot["state"]) and "terminal" not in snapshot:
        found.append(field_error("required", "pointer", "/snapshot/terminal"))
    if "terminal" in snapshot and not is_terminal(snapshot["state"]):
        found.append(field_error("invalid_value", "pointer", "/snapshot/terminal"))
    if snapshot.get("parent") == snapshot_id:
        found.append(field_error("invalid_value", "pointer", "/snapshot/parent"))
    if "state" in live and is_terminal(live["state"]):
        found.append(field_error("invalid_value", "pointer", "/live/state"))
    for member, refs in (("snapshot", snapshot.get("refs", [])), ("live", live.get("refs", []))):
        found += [
            field_error("pattern_mismatch", "pointer", f"/{member}/refs/{index}/reference")
            for index, ref in enumerate(refs)
            if not wording.reference(ref["reference"])
        ]
    return found[:MAX_ERRORS]


def kept(body: PutAgentRunSnapshotRequest) -> PutAgentRunSnapshotRequest:
    """The unit without what is shown to nobody: a detail or a label that says too much is not even stored."""
    snapshot: PublishedSnapshot = {**body["snapshot"]}
    if "terminal" in snapshot:
        terminal: SnapshotTerminal = {**snapshot["terminal"]}
        detail = wording.one_line(terminal.pop("detail", ""))
        if detail is not None:
            terminal["detail"] = detail
        snapshot["terminal"] = terminal
    if "refs" in snapshot:
        snapshot["refs"] = _shown(snapshot["refs"])
    cleaned: PutAgentRunSnapshotRequest = {"snapshot": snapshot}
    if "live" in body:
        cleaned["live"] = {**body["live"]}
        if "refs" in body["live"]:
            cleaned["live"]["refs"] = _shown(body["live"]["refs"])
    return cleaned


def _shown(refs: list[SnapshotRef]) -> list[SnapshotRef]:
    return [shown for shown in map(shown_ref, refs) if shown is not None]
