"""What a session of the mock's gateway plays: the frames of the contract's examples, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import generated
from generated.field_errors import FieldError
from generated.gateway_messages import CLOSES, Close
from livebox.live import patch
from livebox.live.entry import patchable_half, server_half
from livebox.live.patch import Limits, PatchRefused
from livebox.live.request import Request
from livebox.mock.judge import patch_errors
from livebox.mock.prefer import Example, examples

_FOLDER: Final = Path(generated.__file__).parent
PLAIN: Final = "run"
CUT: Final = "cut"
RESYNC: Final = "resync"
OF_AGENTS: Final = {"cancel": "run.cancel_requested", "followup": "run.followup"}
"""Script -> the frame that an agent gets beside its work."""
TOKEN: Final = "script-"  # noqa: S105  # how a token begins that names a script
_REASONS: Final = {"restart": "shutdown"}
"""Close -> the reason of the `bye` before it, where that is not its own name."""


def scripts() -> list[str]:
    """The names of all scripts."""
    return [PLAIN, CUT, RESYNC, *OF_AGENTS, *CLOSES]


class Step(NamedTuple):
    """One frame that comes by itself."""

    kind: str
    members: dict[str, Any]


class Book:
    """The examples of both documents, by name."""

    def __init__(self) -> None:
        document = json.loads((_FOLDER / "asyncapi.json").read_bytes())
        self._messages: dict[str, dict[str, Any]] = {}
        for message in document["components"]["messages"].values():
            shown = self._messages[message["name"]] = {}
            for example in message["examples"]:
                shown[example["name"]] = {key: value for key, value in example["payload"].items() if key != "type"}
        rest = json.loads((_FOLDER / "openapi.json").read_bytes())
        self._answers = {
            operation["operationId"]: examples({status: _followed(rest, entry) for status, entry in
                                                operation["responses"].items()})
            for path in rest["paths"].values()
            for operation in path.values()
            if isinstance(operation, dict)
        }  # fmt: skip
        self.reasons = frozenset(_members(document, "ByeFrame")["reason"]["enum"])
        """What `bye` may give as its reason."""

    def frame(self, kind: str, name: str = "") -> dict[str, Any]:
        """The members of an example of this frame, the first one without a name."""
        shown = self._messages[kind]
        found: dict[str, Any] = shown[name] if name else next(iter(shown.values()))
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]

    def frames(self, kind: str) -> list[dict[str, Any]]:
        """All examples of this frame."""
        return [self.frame(kind, name) for name in self._messages[kind]]

    def answer(self, operation_id: str) -> Any:
        """The value of the first example of an operation's success."""
        first: Example = self._answers[operation_id][0]
        return json.loads(json.dumps(first.value))

    def bye(self, close: Close) -> dict[str, Any] | None:
        """The `bye` that comes before a close, None where there is nothing to say."""
        reason = _REASONS.get(close.name, close.name)
        return {**self.frame("bye"), "reason": reason} if reason in self.reasons else None


def _followed(document: dict[str, Any], node: Any) -> Any:
    """A copy without references, of a part that holds no schemas which hold themselves."""
    if isinstance(node, dict):
        if "$ref" in node:
            found: Any = document
            for token in node["$ref"].removeprefix("#/").split("/"):
                found = found[token.replace("~1", "/").replace("~0", "~")]
            return _followed(document, found)
        return {key: _followed(document, value) for key, value in node.items() if key != "schema"}
    return [_followed(document, item) for item in node] if isinstance(node, list) else node


def _members(document: dict[str, Any], schema: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][schema]["properties"]
    return found


class Story:
    """What one client lives through, over all its sessions: the run of the examples, and the log."""

    def __init__(self, book: Book, limits: Limits) -> None:
        self._book = book
        self._limits = limits
        self.sessions = 0
        shown = [*book.answer("listEvents")["items"], *(frame["event"] for frame in book.frames("event"))]
        self._last: dict[str, Any] = next(event for event in reversed(shown) if event["type"] == "run.state_changed")
        self.log: list[dict[str, Any]] = [event for event in shown if event["seq"] < self._last["seq"]]
        self.run: dict[str, Any]
        self.steps: list[dict[str, Any]]
        self.begin()

    @property
    def ended(self) -> bool:
        """The run has nothing more to show."""
        return not self.steps

    @property
    def run_id(self) -> str:
        """The run that there is."""
        return str(self.run["id"])

    @property
    def seq(self) -> int:
        """Where the log is."""
        return int(self.log[-1]["seq"])

    def begin(self) -> None:
        """The run is at its beginning."""
        self.run = self._book.frame("run.document")["run"]
        self.steps = self._book.frames("run.updated")

    def next(self) -> list[Step]:
        """The next change of the run; with its last one comes the event of its end."""
        ops = self.steps.pop(0)["ops"]
        changes = [Step("run.updated", self._changed(ops))]
        for op in ops:
            if op["op"] == "remove":
                self.run.pop(op["path"][1:], None)
            else:
                self.run[op["path"][1:]] = op["value"]
        if self.ended:
            seq = self.seq + 1
            event = {**self._last, "seq": seq, "id": f"{self._last['id'][:-12]}{seq:012x}"}
            self.log.append(self._last if seq == self._last["seq"] else event)
            changes.append(Step("event", {"event": self.log[-1]}))
        return changes

    def patch(self, frame: dict[str, Any], size: int) -> list[Step]:
        """A patch of the agent. Raises PatchRefused as the live plane does."""
        if self.run["version"] != frame["base_version"]:
            raise PatchRefused("version_conflict", extra={"run": self.run})
        if errors := patch_errors(frame, [], size):
            raise PatchRefused("validation_failed", errors)
        request = Request(frame["base_version"], frame["ops"], size)
        members = patchable_half(self.run)
        done = patch.apply(members, patch.read(request.ops), self._limits, size=patch.size_of(members), raw_size=size)
        self.run = {**server_half(self.run), **done.members, "version": self.run["version"]}
        return [Step("run.updated", self._changed(done.ops))]

    def _changed(self, ops: list[dict[str, Any]]) -> dict[str, Any]:
        base = self.run["version"]
        self.run["version"] = base + 1
        return {"run_id": self.run_id, "base_version": base, "version": base + 1, "ops": ops}


def not_hello(kind: str) -> list[FieldError]:
    """What is wrong with a first frame; nothing with hello."""
    if kind == "hello":
        return []
    return [FieldError("not_allowed_value", "pointer", "/type", "The first frame is hello.")]
