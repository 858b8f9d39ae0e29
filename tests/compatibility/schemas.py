"""Two schemas compared for one direction: requests may widen; responses may gain members and nothing else.

A request breaks a client when a value that was taken is refused. A response breaks a client when something that it
reads is gone, or when something may come that it was never told of. Members that are added are the exception: clients
pass over members they do not know.
"""

from __future__ import annotations

from tests.compatibility.report import ADDITIVE, BOTH, BREAKING, REQUEST, RESPONSE, Report
from tests.compatibility.view import LOWER, OPAQUE, SAME, UPPER, Node, Reader, View

#: The union of all problem codes: which of them an operation answers stands in its own list, and that is judged.
CODES = "openapi.yaml#/components/schemas/ProblemCode"


class Schemas:
    """Compares schemas of `old` with those of `new`."""

    def __init__(self, old: Reader, new: Reader, report: Report) -> None:
        self._old, self._new = old, new
        self._report = report
        self._seen: set[tuple[tuple[str, ...], tuple[str, ...], str]] = set()

    def compare(self, old: Node, new: Node, direction: str) -> None:
        """Report what has changed for values that go in `direction`."""
        key = tuple(part.pointer for part in old), tuple(part.pointer for part in new), direction
        if key in self._seen:
            return
        self._seen.add(key)
        before, after = self._old.view(old), self._new.view(new)
        self._types(before, after, direction)
        if before.values is not None or after.values is not None:
            self._values(before, after, direction)
        if before.values is None or after.values is None:
            for keyword in (*LOWER, *UPPER):
                self._limit(keyword, before, after, direction)
            for keyword in SAME:
                self._same(keyword, before, after, direction)
        self._members(before, after, direction)
        self._others(before, after, direction)
        for keyword in ("items", "propertyNames"):
            self._inner(keyword, before, after, direction)
        self._variants(before, after, direction)
        self._rest(before, after, direction)

    def _widened(self, rule: str, text: str, pointer: str, more: str, direction: str) -> None:
        level = ADDITIVE if direction == REQUEST else BREAKING
        self._report.add(level, f"{direction}.{rule}.widened", text, pointer, more, direction=direction)

    def _narrowed(self, rule: str, text: str, pointer: str, more: str, direction: str) -> None:
        level = BREAKING if direction == REQUEST else ADDITIVE
        self._report.add(level, f"{direction}.{rule}.narrowed", text, pointer, more, direction=direction)

    def _types(self, old: View, new: View, direction: str) -> None:
        places = new.at("type"), old.at("type")
        if added := new.types - old.types:
            self._widened("type", f"may also be {_list(added)}", *places, direction)
        if gone := old.types - new.types:
            self._narrowed("type", f"is no longer {_list(gone)}", *places, direction)

    def _values(self, old: View, new: View, direction: str) -> None:
        places = _place(new), _place(old)
        if old.values is None:
            return self._narrowed("values", f"only {_list(new.values or ())} from now on", *places, direction)
        if new.values is None:
            return self._widened("values", f"no longer only {_list(old.values)}", *places, direction)
        if places[0].startswith(f"{CODES}/") and places[1].startswith(f"{CODES}/"):
            if old.values.keys() != new.values.keys():
                text = "the union of all problem codes has changed; the lists of the operations are judged"
                self._report.add(ADDITIVE, "codes.union", text, *places)
            return None
        added, gone = new.values.keys() - old.values.keys(), old.values.keys() - new.values.keys()
        if added:
            self._widened("values", f"{_list(added)} added to a closed list", *places, direction)
        if gone and direction == RESPONSE:
            text = f"{_list(gone)} is never sent any more, and somebody may wait for it"
            self._report.add(BREAKING, "response.values.lost", text, *places, direction=direction)
        elif gone:
            self._narrowed("values", f"{_list(gone)} is refused", *places, direction)
        return None

    def _limit(self, keyword: str, old: View, new: View, direction: str) -> None:
        was, now = old.limit(keyword), new.limit(keyword)
        if was == now:
            return
        tighter = was is None or (now is not None and (now > was if keyword in LOWER else now < was))
        judge = self._narrowed if tighter else self._widened
        text = f"{keyword} was {'absent' if was is None else was}, is {'absent' if now is None else now}"
        judge("limit", text, new.narrowest(keyword), old.narrowest(keyword), direction)

    def _same(self, keyword: str, old: View, new: View, direction: str) -> None:
        was, now = old.said(keyword), new.said(keyword)
        places = new.at(keyword), old.at(keyword)
        if now > was:
            self._narrowed("constraint", f"{keyword} {_list(now - was)} added", *places, direction)
        elif now < was:
            self._widened("constraint", f"{keyword} {_list(was - now)} taken away", *places, direction)
        elif now != was:
            text = f"{keyword} was {_list(was)}, is {_list(now)}: which is wider cannot be told"
            self._report.add(BREAKING, f"{direction}.constraint.changed", text, *places, direction=direction)

    def _members(self, old: View, new: View, direction: str) -> None:
        def say(level: str, rule: str, text: str, pointer: str, *more: str) -> None:
            self._report.add(level, f"{direction}.member.{rule}", text, pointer, *more, direction=direction)

        for name, node in old.members.items():
            if name not in new.members:
                say(BREAKING, "removed", f"the member {name} is gone", node[-1].pointer, old.at("required"))
                continue
            self.compare(node, new.members[name], direction)
        # A name may be required that is declared nowhere.
        undeclared = (old.required | new.required) - old.members.keys() - new.members.keys()
        for name in [*(name for name in old.members if name in new.members), *sorted(undeclared)]:
            if (name in old.required) != (name in new.required):
                must = name in new.required
                level = ADDITIVE if must == (direction == RESPONSE) else BREAKING
                text = f"the member {name} {'must' if must else 'need not'} be there"
                say(level, "required" if must else "optional", text, new.at("required"), old.at("required"))
        for name, node in new.members.items():
            if name in old.members:
                continue
            pointer, required = node[-1].pointer, name in new.required
            if direction == RESPONSE:
                say(ADDITIVE, "added", f"the member {name} is new", pointer, new.at("required"))
            elif required:
                say(BREAKING, "added_required", f"the new member {name} must be there", pointer, new.at("required"))
            elif old.others is True:
                say(BREAKING, "added_to_free", f"the member {name} was free and now has a schema", pointer)
            else:
                say(ADDITIVE, "added", f"the member {name} may be sent", pointer)
        self._patchable(old, new)

    def _patchable(self, old: View, new: View) -> None:
        was, now = (any(part.schema for part in view.all("x-patchable")) for view in (old, new))
        if was != now:
            places = new.at("x-patchable"), old.at("x-patchable")
            level, text = (ADDITIVE, "may be patched") if now else (BREAKING, "may no longer be patched")
            self._report.add(level, "patchable.gained" if now else "patchable.lost", text, *places)

    def _others(self, old: View, new: View, direction: str) -> None:
        was, now = old.others, new.others
        if isinstance(was, tuple) and isinstance(now, tuple):
            return self.compare(was, now, direction)
        if was == now or "object" not in old.types & new.types:
            return None
        places = _closing(new), _closing(old)
        rank = [_rank(side) for side in (was, now)]
        text = "undeclared members: " + " -> ".join(("none", "with a schema", "any")[place] for place in rank)
        if direction == REQUEST:
            return (self._widened if rank[1] > rank[0] else self._narrowed)("others", text, *places, direction)
        # What may come beside the declared members is passed over, unless clients were told that it comes.
        harmless = rank[0] == 0 or rank[1] == 1
        level, rule = (ADDITIVE, "gained") if harmless else (BREAKING, "lost")
        self._report.add(level, f"response.others.{rule}", text, *places, direction=direction)
        return None

    def _inner(self, keyword: str, old: View, new: View, direction: str) -> None:
        was, now = tuple(old.all(keyword)), tuple(new.all(keyword))
        if was and now:
            self.compare(was, now, direction)
        elif was or now:
            judge = self._narrowed if now else self._widened
            judge("inner", f"{keyword} {'added' if now else 'taken away'}", new.at(keyword), old.at(keyword), direction)

    def _variants(self, old: View, new: View, direction: str) -> None:
        was, now = old.variants, new.variants
        keyword = "oneOf" if new.all("oneOf") or old.all("oneOf") else "anyOf"
        places = new.at(keyword), old.at(keyword)
        if was is None or now is None or len(old.all("oneOf")) != len(new.all("oneOf")):
            if was is not now:
                text = f"{keyword} added or taken away: which is wider cannot be told"
                self._report.add(BREAKING, f"{direction}.variants.changed", text, *places, direction=direction)
            return
        now = self._named_alike(was, now)
        for name, node in was.items():
            if name in now:
                self.compare(node, now[name], direction)
            else:
                text = f"the variant {name} is gone"
                self._report.add(
                    BREAKING, f"{direction}.variant.removed", text, places[1], places[0], direction=direction
                )
        for name in now.keys() - was.keys():
            self._widened("variant", f"the variant {name} is new", *places, direction)

    def _named_alike(self, was: dict[str, Node], now: dict[str, Node]) -> dict[str, Node]:
        """The variants of `now`, those that say the same as one that is gone under its name: only they are called anew."""
        gone = {name: self._old.content(was[name]) for name in was.keys() - now.keys()}
        named = {}
        for name, node in now.items():
            content = None if name in was else self._new.content(node)
            former = next((old for old, said in gone.items() if content is not None and said == content), name)
            gone.pop(former, None)
            named[former] = node
        return named

    def _rest(self, old: View, new: View, direction: str) -> None:
        for keyword in OPAQUE:
            was, now = (
                [view.reader.whole(part.pointer, part.schema) for part in view.all(keyword)] for view in (old, new)
            )
            if was != now:
                text = f"{keyword} has changed: which is wider cannot be told"
                self._report.add(BREAKING, "keyword.changed", text, new.at(keyword), old.at(keyword), direction=BOTH)
        self._default(old, new, direction)

    def _default(self, old: View, new: View, direction: str) -> None:
        was, now = ([part.schema for part in view.all("default")] for view in (old, new))
        if was == now or direction == RESPONSE:
            return
        level = BREAKING if was else ADDITIVE
        rule = "request.default.changed" if was else "request.default.added"
        self._report.add(
            level, rule, f"the default was {was or 'absent'}, is {now or 'absent'}", new.at("default"), old.at("default"),
            direction=direction,
        )  # fmt: skip


def _place(view: View) -> str:
    return view.at("enum") if view.all("enum") else view.at("const")


def _closing(view: View) -> str:
    return view.at("additionalProperties" if view.all("additionalProperties") else "unevaluatedProperties")


def _rank(others: Node | bool) -> int:
    return 1 if isinstance(others, tuple) else 2 if others else 0


def _list(values: object) -> str:
    return ", ".join(sorted(str(value) for value in values))  # type: ignore[attr-defined]
