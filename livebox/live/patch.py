"""Patches of the live content of a run: read, checked, and applied to a document that nobody else can see change.

Pure: no clock, no database. What may be patched comes from the contract (`generated.patchable_paths`). A patch is
looked at in the order in which refusals are told: paths, then (by the plane) its version, then its targets, its values
and its size. Content is copied on write, so that a document that was read or is being saved stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from generated.field_errors import FieldError, field_error
from generated.validators import checker
from livebox.live.places import NOTHING, Place, kept, locate

OPS: Final = frozenset({"add", "replace", "remove"})
SWELL: Final = 4
"""How much longer a value may be in our encoding than it was in the patch, at most."""

_encode = msgspec.json.Encoder().encode


class PatchRefused(Exception):
    """A patch that is not applied: a problem code, what is wrong where, and what else the problem says.

    `extra` are members of the problem (`current`, `run`), `wait` the seconds after which a repeat makes sense.
    """

    def __init__(
        self,
        code: str,
        errors: Sequence[FieldError] = (),
        *,
        detail: str = "",
        extra: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> None:
        self.code = code
        self.errors = errors
        self.detail = detail
        self.extra = extra or {}
        self.wait = wait
        super().__init__(code)


class Limits(NamedTuple):
    """The configured bounds: bytes of the content, of its last text and of a patch, and operations of a patch."""

    document_bytes: int
    text_bytes: int
    patch_bytes: int
    patch_ops: int


class Step(NamedTuple):
    """One operation whose path is known to be allowed."""

    op: str
    path: str
    place: Place
    value: Any


class Applied(NamedTuple):
    """The content after a patch, the operations as RFC 6902 applies them to a document, and a bound of its size."""

    members: dict[str, Any]
    ops: list[dict[str, Any]]
    size: int


def read(ops: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The operations of a patch that has the shape of the contract. Raises PatchRefused where one is not allowed."""
    errors: list[FieldError] = []
    steps: list[Step] = []
    for index, op in enumerate(ops):
        name, path = op["op"], op["path"]
        place = locate(path)
        if name not in OPS:
            errors.append(field_error("patch_op_forbidden", "pointer", f"/ops/{index}/path"))
        elif place is None:
            errors.append(field_error("patch_path_forbidden", "pointer", f"/ops/{index}/path"))
        elif name != "remove" and "value" not in op:
            errors.append(field_error("required", "pointer", f"/ops/{index}/value"))
        else:
            steps.append(Step(name, path, place, op.get("value")))
    if errors:
        raise PatchRefused("validation_failed", errors)
    return steps


def apply(
    members: dict[str, Any],
    steps: Sequence[Step],
    limits: Limits,
    *,
    size: int,
    raw_size: int,
    late: Sequence[FieldError] = (),
) -> Applied:
    """The content with the patch applied. `members` stays as it is.

    `size` bounds the bytes of `members` from above, `raw_size` are the bytes of the patch as it came; `late` are
    errors in its values that were found before. Raises PatchRefused: then nothing happened.
    """
    work = _Work(members)
    missing: list[FieldError] = []
    for index, step in enumerate(steps):
        if not work.take(index, step):
            missing = [field_error("patch_target_missing", "pointer", f"/ops/{index}/path")]
            break
    # A value that is no object where one belongs is wrong itself, not the target of what comes after it.
    if missing and not work.broken:
        raise PatchRefused("validation_failed", missing)
    errors = [*late, *_wrong_values(steps)] or missing or work.incomplete()
    if errors:
        raise PatchRefused("validation_failed", errors)
    return Applied(work.root, work.ops, _fitting(work.root, steps, limits, size, raw_size))


def size_of(members: Mapping[str, Any]) -> int:
    """The bytes of the content as JSON."""
    return len(_encode(members))


class _Work:
    """One patch being applied: the new root, what of it is a copy of our own, and what has to be looked at in the end.

    `broken`: something on the way to a target is no object.
    """

    __slots__ = ("_fresh", "_grown", "_removed", "broken", "ops", "root")

    def __init__(self, members: dict[str, Any]) -> None:
        self.root = dict(members)
        self.ops: list[dict[str, Any]] = []
        self.broken = False
        self._fresh = {id(self.root)}
        self._removed: list[tuple[int, Step]] = []
        self._grown: list[tuple[int, Step]] = []

    def take(self, index: int, step: Step) -> bool:
        """Apply one operation; False when its target is not there."""
        return self._remove(index, step) if step.op == "remove" else self._put(index, step)

    def incomplete(self) -> list[FieldError]:
        """Objects that lost what they need or have too many keys, once all operations are done."""
        errors = []
        for index, step in self._removed:
            parent = self._find(step.place.tokens[:-1])
            if parent is not None and step.place.tokens[-1] not in parent:
                errors.append(field_error("required", "pointer", f"/ops/{index}/path"))
        for index, step in self._grown:
            parent = self._find(step.place.tokens[:-1])
            if parent is not None and len(parent) > step.place.most:
                errors.append(field_error("too_many", "pointer", f"/ops/{index}/path"))
        return errors

    def _find(self, tokens: Sequence[str]) -> dict[str, Any] | None:
        found: Any = self.root
        for token in tokens:
            if not isinstance(found, dict) or token not in found:
                return None
            found = found[token]
        return found if isinstance(found, dict) else None

    def _own(self, parent: dict[str, Any], name: str) -> dict[str, Any] | None:
        """The object that is there, as a copy of our own; None when it is no object."""
        child = parent[name]
        if not isinstance(child, dict):
            self.broken = True
            return None
        if id(child) in self._fresh:
            return child
        copy = parent[name] = dict(child)
        self._fresh.add(id(copy))
        return copy

    def _put(self, index: int, step: Step) -> bool:
        tokens, nodes, most, shaped = step.place
        value = kept(step.value, nodes[-1]) if shaped else step.value
        if value is NOTHING:  # an empty container is one that is not there
            if self._find(tokens) is None:
                return step.op == "add"
            return self._remove(index, step)
        parent, made = self.root, -1
        for depth, token in enumerate(tokens[:-1]):
            if token in parent:
                child = self._own(parent, token)
                if child is None:
                    return False
            elif step.op == "add" and nodes[depth].container:
                made = depth if made < 0 else made
                child = parent[token] = {}
                self._fresh.add(id(child))
            else:
                return False
            parent = child
        name = tokens[-1]
        there = name in parent
        if step.op == "replace" and not there:
            return False
        parent[name] = value
        if most and not there:
            self._grown.append((index, step))
        if made < 0:
            self.ops.append({"op": "replace" if there else "add", "path": step.path, "value": value})
        else:
            whole = value
            for token in reversed(tokens[made + 1 :]):
                whole = {token: whole}
            self.ops.append({"op": "add", "path": _pointer(tokens[: made + 1]), "value": whole})
        return True

    def _remove(self, index: int, step: Step) -> bool:
        tokens, nodes = step.place.tokens, step.place.nodes
        chain = [self.root]
        for token in tokens[:-1]:
            child = self._own(chain[-1], token) if token in chain[-1] else None
            if child is None:
                return False
            chain.append(child)
        if tokens[-1] not in chain[-1]:
            return False
        depth = len(tokens) - 1
        del chain[depth][tokens[depth]]
        while depth and not chain[depth] and nodes[depth - 1].container:
            depth -= 1
            del chain[depth][tokens[depth]]
        self.ops.append({"op": "remove", "path": _pointer(tokens[: depth + 1])})
        if depth == len(tokens) - 1 and nodes[-1].required:
            self._removed.append((index, step))
        return True


def _pointer(tokens: Sequence[str]) -> str:
    return "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in tokens)


def _wrong_values(steps: Sequence[Step]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, step in enumerate(steps):
        if step.op != "remove" and (found := checker(step.place.nodes[-1].schema)(step.value)):
            errors += [error._replace(name=f"/ops/{index}/value{error.name}") for error in found]
    return errors


def _fitting(members: dict[str, Any], steps: Sequence[Step], limits: Limits, size: int, raw_size: int) -> int:
    """A bound of the size of the content. Raises PatchRefused for what is above a limit, which it names."""
    if raw_size > limits.patch_bytes:
        raise PatchRefused("patch_too_large", detail=f"run.patch_max_bytes allows {limits.patch_bytes} bytes.")
    if len(steps) > limits.patch_ops:
        error = field_error("too_many", "pointer", "/ops")
        raise PatchRefused(
            "validation_failed", [error], detail=f"run.patch_max_ops allows {limits.patch_ops} operations."
        )
    for index, step in enumerate(steps):
        if step.place.tokens[0] == "text" and step.op != "remove" and not _fits(members, limits.text_bytes):
            at = f"/ops/{index}/value" + ("" if len(step.place.tokens) > 1 else "/content")
            error = field_error("too_long", "pointer", at)
            raise PatchRefused(
                "validation_failed", [error], detail=f"run.text_max_bytes allows {limits.text_bytes} bytes."
            )
    bound = size + SWELL * raw_size
    if bound > limits.document_bytes:
        bound = size_of(members)
        if bound > limits.document_bytes:
            raise PatchRefused(
                "document_too_large", detail=f"run.document_max_bytes allows {limits.document_bytes} bytes."
            )
    return bound


def _fits(members: dict[str, Any], most: int) -> bool:
    content = members["text"]["content"] if "text" in members else ""
    return len(content) * 4 <= most or len(content.encode()) <= most
