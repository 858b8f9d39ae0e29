"""The REST reference: every operation with what it takes and answers, and every schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from livebox.reference.markup import code, example, inline, page, prose, table, tag
from livebox.reference.schemas import anchor, bounds, kind, whole

FILE = "rest.html"
Json = Mapping[str, Any]
_METHODS = ("get", "put", "post", "delete", "patch")


class Rest:
    """Makes the page of one OpenAPI document, without nulls and with local references."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._problems: Json = document["x-problem-codes"]

    def page(self) -> str:
        """The whole page, the same for the same document."""
        tags = [str(entry["name"]) for entry in self._document["tags"]]
        by_tag = {name: [found for found in self._operations() if name in found[2]["tags"]] for name in tags}
        schemas: Json = self._document["components"]["schemas"]
        groups = [(name, [(raw["operationId"], raw["operationId"]) for _, _, raw, _ in by_tag[name]]) for name in tags]
        groups.append(("Problems", [("problems", "All problem codes")]))
        groups.append(("Schemas", [(anchor(name), name) for name in schemas]))
        info = self._document["info"]
        return page(FILE, f"{info['title']} {info['version']}: REST reference", groups, self._body(by_tag, schemas))

    def _body(self, by_tag: Mapping[str, list[tuple[str, str, Json, Json]]], schemas: Json) -> Iterator[str]:
        info = self._document["info"]
        yield tag("h1", escape(f"{info['title']} {info['version']}: REST reference"))
        yield prose(info["description"])
        yield tag("p", "A running server has this page at ", code("/docs/rest.html"), ", and at ", code("/docs"),
                  " operations can be tried.")  # fmt: skip
        for entry in self._document["tags"]:
            yield tag("h2", escape(entry["name"]))
            yield prose(entry["description"])
            for method, path, raw, item in by_tag[entry["name"]]:
                yield tag("section", *self._operation(method, path, raw, item), aria_labelledby=raw["operationId"])
        yield tag("h2", "Problems", id="problems")
        yield tag("p", "Every error has a ", code("code"), " from this list; each operation says which.")
        rows = ((code(name), str(entry["status"]), escape(entry["title"])) for name, entry in self._problems.items())
        yield table("Problem codes", ("code", "status", "meaning"), rows)
        yield tag("h2", "Schemas")
        for name, schema in schemas.items():
            yield tag("section", tag("h3", escape(name), id=anchor(name)), whole(schema), aria_labelledby=anchor(name))

    def _operations(self) -> Iterator[tuple[str, str, Json, Json]]:
        for path, item in self._document["paths"].items():
            for method in _METHODS:
                if method in item:
                    yield method.upper(), path, item[method], item

    def _operation(self, method: str, path: str, raw: Json, item: Json) -> Iterator[str]:
        yield tag("h3", inline(raw["summary"]), id=raw["operationId"])
        yield tag(
            "p", tag("strong", method), " ", code(path), " ", tag("span", escape(raw["operationId"]), class_="chip")
        )
        yield prose(raw.get("description", ""))
        yield tag("p", self._access(raw), class_="quiet")
        parameters = [self._follow(entry) for entry in (*item.get("parameters", ()), *raw.get("parameters", ()))]
        yield table("Parameters", ("parameter", "in", "type", "limits", "meaning"), map(_parameter, parameters))
        if "requestBody" in raw:
            body = self._follow(raw["requestBody"])
            yield tag("h4", "Body" if body.get("required") else "Body, may be left out")
            for media, content in body["content"].items():
                yield from self._content(media, content, f"{raw['operationId']} body")
        yield table("Answers", ("status", "meaning", "body", "headers"), self._answers(raw))
        for status, entry in raw["responses"].items():
            if status.startswith("2"):
                for content in self._follow(entry).get("content", {}).values():
                    yield from self._examples(content, f"{raw['operationId']} {status}")
        yield table("Problem codes of this operation", ("code", "status", "meaning"), self._codes(raw))

    def _access(self, raw: Json) -> str:
        schemes = {name for wanted in raw.get("security", self._document.get("security", ())) for name in wanted}
        if "invocation" in schemes:
            access = "For the agent that holds the run: a bearer token, and its invocation token."
        elif schemes and {} not in raw.get("security", ()):
            access = "For everybody with a bearer token."
        else:
            access = "For everybody."
        return access + (f" Counts as {escape(raw['x-rate-class'])}." if "x-rate-class" in raw else "")

    def _answers(self, raw: Json) -> Iterator[tuple[str, str, str, str]]:
        for status, entry in raw["responses"].items():
            response = self._follow(entry)
            bodies = " or ".join(
                kind(content["schema"]) if "schema" in content else escape(media)
                for media, content in response.get("content", {}).items()
            )
            headers = ", ".join(code(name) for name in response.get("headers", {}))
            yield code(status), inline(response["description"]), bodies, headers

    def _codes(self, raw: Json) -> Iterator[tuple[str, str, str]]:
        for name in raw.get("x-problem-codes", ()):
            problem = self._problems[name]
            yield code(name), str(problem["status"]), escape(problem["title"])

    def _content(self, media: str, content: Json, label: str) -> Iterator[str]:
        yield tag("p", kind(content["schema"]), " as ", code(media))
        yield from self._examples(content, label)

    def _examples(self, content: Json, label: str) -> Iterator[str]:
        for name, entry in content.get("examples", {}).items():
            yield example(name, self._follow(entry)["value"], label)

    def _follow(self, node: Json) -> Json:
        """The object itself behind any chain of references within the document."""
        while "$ref" in node:
            found: Any = self._document
            for token in str(node["$ref"]).split("/")[1:]:
                found = found[token.replace("~1", "/").replace("~0", "~")]
            node = found
        return node


def _parameter(raw: Json) -> tuple[str, str, str, str, str]:
    required = "" if raw.get("required") else tag("span", " optional", class_="quiet")
    schema = raw["schema"]
    return code(raw["name"]) + required, escape(raw["in"]), kind(schema), bounds(schema), inline(raw["description"])
