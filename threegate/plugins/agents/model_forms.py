"""Forms that a request to a model may have: small functions that check a JSON value, and ways to combine them.

Invariant: a form accepts only what it lists. An object has listed keys only, each value has the form of its key, and
an object with kinds is of a listed kind. So whatever a provider adds to its protocol is refused until it is listed.
A key whose value is null is ignored, as providers ignore it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final


class ModelRequestRefused(Exception):
    """The request is not sent to the provider; the text says which part was refused. It never repeats a value."""


Form = Callable[[object, str], None]
"""Checks a value; the second argument is what the value is called in a refusal. Raises ModelRequestRefused."""
Listed = Mapping[str, Form]
"""The keys that an object may have, each with the form of its value."""

BY_REFERENCE: Final = "by URL or file id"
_REFERENCES: Final = frozenset(("file_id", "file_url", "url"))
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=\s-]*").fullmatch
_DATA_URL: Final = re.compile(r"data:([A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+)?(;[A-Za-z0-9.+_=-]+)*;base64,").match
_IMAGE_URL: Final = re.compile(r"data:image/(?!svg)[A-Za-z0-9.+-]+(;[A-Za-z0-9.+_=-]+)*;base64,").match
_REFERRING: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))


def each(form: Form, names: str) -> dict[str, Form]:
    """One form for several keys, whose names are the words of a text."""
    return dict.fromkeys(names.split(), form)


def text(value: object, what: str) -> None:
    """A text. The provider reads it and does nothing else with it."""
    if not isinstance(value, str):
        raise _other_form(what)


def number(value: object, what: str) -> None:
    """A number."""
    if type(value) not in (int, float):
        raise _other_form(what)


def flag(value: object, what: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise _other_form(what)


def data(value: object, what: str) -> None:
    """Any JSON that the provider does not interpret, such as the arguments of a call that the client runs."""


def schema(value: object, what: str) -> None:
    """A JSON Schema that refers to nothing outside itself."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            for key in _REFERRING & part.keys():
                if isinstance(part[key], str) and not part[key].startswith("#"):
                    raise ModelRequestRefused(f"{what} {BY_REFERENCE}: a schema with a {key} to elsewhere")
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def base64_data(value: object, what: str) -> None:
    """Bytes in base64, as they are or as a data URL."""
    if not isinstance(value, str):
        raise _other_form(what)
    start = _DATA_URL(value)
    if not _BASE64(value, start.end() if start else 0):
        raise ModelRequestRefused(f"{what} {BY_REFERENCE}, or not in base64")


def image_url(value: object, what: str) -> None:
    """A data URL with an image. SVG may refer to other images."""
    start = _IMAGE_URL(value) if isinstance(value, str) else None
    if start is None or not isinstance(value, str) or not _BASE64(value, start.end()):
        raise ModelRequestRefused(f"{what} {BY_REFERENCE}")


def word(*known: str) -> Form:
    """One of the texts."""

    def check(value: object, what: str) -> None:
        if value not in known:
            raise ModelRequestRefused(f"{what} {safe_word(value)}")

    return check


def nothing(value: object, what: str) -> None:
    """Only null, or an empty list or object."""
    if value not in (None, [], {}):
        raise _other_form(what)


def list_of(form: Form) -> Form:
    """A list of values of a form."""

    def check(value: object, what: str) -> None:
        if not isinstance(value, list):
            raise _other_form(what)
        for item in value:
            form(item, what)

    return check


def map_of(form: Form) -> Form:
    """An object with any keys, and values of a form."""

    def check(value: object, what: str) -> None:
        for item in _object(value, what).values():
            if item is not None:
                form(item, what)

    return check


def text_or(form: Form) -> Form:
    """A text, or a value of a form."""

    def check(value: object, what: str) -> None:
        if not isinstance(value, str):
            form(value, what)

    return check


def object_or(form: Form, inner: Form) -> Form:
    """An object of the second form, or another value of the first."""

    def check(value: object, what: str) -> None:
        (inner if isinstance(value, dict) else form)(value, what)

    return check


def fields(listed: Listed, what: str = "") -> Form:
    """An object with the listed keys, each of which may be missing. `what` names it, instead of its key."""

    def check(value: object, called: str) -> None:
        check_fields(_object(value, what or called), listed, what or called)

    return check


def kinds(by: str, listed: Mapping[str, Listed], *, usual: str = "", refused: str = "") -> Form:
    """An object of one of the kinds that `by` names, with the listed keys of its kind. `usual` is the kind of an
    object that names none; `refused` is said of another kind, instead of its name.
    """

    def check(value: object, what: str) -> None:
        given = _object(value, what)
        kind = given.get(by, usual or None)
        if not isinstance(kind, str) or kind not in listed:
            raise ModelRequestRefused(refused or f"{what} of the {by} {safe_word(kind)}")
        check_fields(given, {by: text, **listed[kind]}, f"{what} of the {by} {kind}")

    return check


def later(found: Callable[[], Form]) -> Form:
    """A form that is defined further below."""

    def check(value: object, what: str) -> None:
        found()(value, what)

    return check


def check_fields(value: Mapping[str, Any], listed: Listed, what: str) -> None:
    """Check an object's keys and their values. Raises ModelRequestRefused."""
    for key, item in value.items():
        if item is None:  # providers ignore a key whose value is null
            continue
        form = listed.get(key)
        if form is not None:
            form(item, f"{key} of {what}" if what else key)
        elif key in _REFERENCES:
            raise ModelRequestRefused(f"{what} {BY_REFERENCE}, with the key {key}")
        else:
            raise ModelRequestRefused(f"{what or 'the request'} with the key {safe_word(key)}")


def safe_word(value: object) -> str:
    """A name from the agent, cut so that it fits into a line and hides nothing."""
    given = value if isinstance(value, str) else type(value).__name__
    return re.sub(r"[^A-Za-z0-9._/:-]", "?", given)[:64] or "(none)"


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _other_form(what)
    return value


def _other_form(what: str) -> ModelRequestRefused:
    return ModelRequestRefused(f"{what} of this form")
