"""Is a response what the contract says? Checked in tests and, with `check.responses`, in development; never otherwise.

The reading of the contract is openapi-core's, not our own, so that a mistake of the generator cannot hide itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from jsonschema import FormatChecker
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from openapi_core.templating.paths.exceptions import PathError
from openapi_core.validation.schemas import oas31_schema_validators_factory
from openapi_core.validation.schemas.factories import DialectSchemaValidatorsFactory
from openapi_schema_validator import OAS31_BASE_DIALECT_ID
from werkzeug.datastructures import Headers, ImmutableMultiDict
from yarl import URL

from generated.problems import PROBLEMS
from generated.validators import checker
from livebox import json_text, responses
from livebox.service import openapi_document

FITTING_MAX: Final = 100_000
"""Values that are known again, of 16 bytes each."""


class Seen(NamedTuple):
    """One answered request."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Request:
    """What openapi-core wants to know of a request to check its response."""

    host_url = "http://localhost"
    body = None
    content_type = ""

    def __init__(self, method: str, path: str) -> None:
        self.method = method.lower()
        self.path = path
        self.full_url_pattern = self.host_url + path
        self.parameters = RequestParameters(query=ImmutableMultiDict(), header=Headers(), cookie=ImmutableMultiDict())


class _Response:
    def __init__(self, seen: Seen) -> None:
        self.status_code = seen.status
        self.headers = Headers(list(seen.headers.items()))
        self.content_type = seen.headers.get("Content-Type", "").lower()
        self.data = seen.body


def knowing(plain: type[Validator]) -> type[Validator]:
    """A validator class that knows a value again that fits a named schema: lists show the same items often.

    Only what fits is remembered, by a digest of the schema's name and the value. It is for one document, whose schemas
    stay as they are.
    """
    fitting: set[bytes] = set()
    follow = plain.VALIDATORS["$ref"]

    def ref(validator: Any, name: str, value: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(value, dict):
            yield from follow(validator, name, value, schema) or ()
            return
        key = hashlib.blake2b(f"{name} {json.dumps(value)}".encode(), digest_size=16).digest()
        if key in fitting:
            return
        fits = True
        for error in follow(validator, name, value, schema) or ():
            fits = False
            yield error
        if fits:
            if len(fitting) >= FITTING_MAX:
                fitting.clear()
            fitting.add(key)

    made: type[Validator] = extend(plain, {"$ref": ref})  # type: ignore[no-untyped-call]
    return made


class _Validators(DialectSchemaValidatorsFactory):
    """Those of openapi-core, which here know values again and share their check of formats."""

    def __init__(self) -> None:
        plain = oas31_schema_validators_factory
        super().__init__(plain.schema_validator_cls, OAS31_BASE_DIALECT_ID, plain.format_checker)
        self._made: dict[type[Validator], type[Validator]] = {}

    def get_validator_cls(self, spec: Any, schema: Any) -> type[Validator]:
        """The class for a schema's dialect, one for each dialect."""
        plain = super().get_validator_cls(spec, schema)
        if plain not in self._made:
            self._made[plain] = knowing(plain)
        return self._made[plain]

    def get_format_checker(self, format_validators: Any = None, extra_format_validators: Any = None) -> FormatChecker:
        """The one that there is where nothing is added to it: openapi-core would copy it for each value."""
        if format_validators is None and not extra_format_validators:
            return self.format_checker
        return super().get_format_checker(format_validators, extra_format_validators)


class Conformance:
    """Checks responses. Making one takes a third of a second, a check some milliseconds."""

    def __init__(self) -> None:
        config = Config(
            extra_media_type_deserializers={responses.PROBLEM_JSON: json.loads}, schema_validators_factory=_Validators()
        )
        self._contract = OpenAPI.from_dict(json.loads(openapi_document()), config=config)

    def findings(self, seen: Seen) -> list[str]:
        """What is wrong with an answer; nothing when all is well."""
        found = [*_headers(seen), *_body(seen)]
        if seen.method == "HEAD":
            return found  # the contract has no HEAD of its own; its headers were looked at
        path = URL(seen.path, encoded=True).path_safe  # an encoded slash is within its segment
        try:
            if not seen.method.isupper() or not {".", ".."}.isdisjoint(path.split("/")):
                raise PathError  # openapi-core would take it for a method or a path that the contract has
            self._contract.validate_response(_Request(seen.method, path), _Response(seen))
        except PathError:
            if seen.status not in (400, 404, 405, 426):  # the last one from the path of the gateway
                found.append(f"{seen.status} on a path or method that the contract does not have")
        except OpenAPIError as error:
            found.append(f"{type(error).__name__}: {error} {error.__cause__ or ''}")
        return found


def _headers(seen: Seen) -> list[str]:
    found = []
    if len(seen.headers.get("Request-Id", "")) != 36:
        found.append("the header Request-Id is missing")
    if "traceparent" not in seen.headers:
        found.append("the header traceparent is missing")
    if seen.status == 405 and not seen.headers.get("Allow"):
        found.append("405 without Allow")
    if seen.status == 401 and not seen.headers.get("WWW-Authenticate"):
        found.append("401 without WWW-Authenticate")
    if seen.status in (429, 503) and not seen.headers.get("Retry-After"):
        found.append(f"{seen.status} without Retry-After")
    return found


def _body(seen: Seen) -> list[str]:
    media = seen.headers.get("Content-Type", "")
    if seen.method == "HEAD" or seen.status in (204, 304):
        return [f"{seen.status} to {seen.method} has a body"] if seen.body else []
    if not media.startswith(("application/json", "application/problem+json")):
        return [] if seen.status < 400 else [f"{seen.status} is of type {media!r}"]
    try:
        value = json_text.read(seen.body)
    except json_text.JsonRefused as refused:
        return [f"the body: {finding.message} ({finding.pointer})" for finding in refused.findings]
    return _problem(seen, media, value) if seen.status >= 400 and media != responses.JSON else []


def _problem(seen: Seen, media: str, value: Any) -> list[str]:
    errors = checker("/schemas/Problem")(value)
    found = [f"the problem: {error.name} {error.message}" for error in errors]
    if media != responses.PROBLEM_JSON:
        found.append(f"a problem of type {media!r}")
    if found:
        return found
    if PROBLEMS[value["code"]] != (seen.status, value["title"]) or value["status"] != seen.status:
        found.append("code, status and title of the problem do not belong together")
    if value["request_id"] != seen.headers.get("Request-Id"):
        found.append("the problem names another request than its header")
    return found
