"""Bodies that are forms: `multipart/form-data` or `application/x-www-form-urlencoded`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from encodings import aliases, normalize_encoding
from typing import Any, Final

from pydantic import BaseModel
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.requests import Request

from app.errors import InvalidRequestError, storage_error

# Those with another name. Python also has Punycode and its like, whose time grows with the square of the text, and it
# keeps every name that it does not know.
_CHARSETS: Final = frozenset((*aliases.aliases, *aliases.aliases.values()))
_OTHER_CHARSET: Final = "The form is not in the charset that it names; send UTF-8."


@asynccontextmanager
async def read_form(request: Request, **limits: Any) -> AsyncIterator[FormData]:
    """Yield the form that `request` carries, and close its files in the end. `limits` are those of `Request.form`.

    Raises InvalidRequestError if its text is not in the charset that it names, HTTPException if it is no form, and
    StorageError.
    """
    _, named = parse_options_header(request.headers.get("content-type"))
    if normalize_encoding(named.get(b"charset", b"utf-8").decode("latin-1")).lower() not in _CHARSETS:
        raise InvalidRequestError(_OTHER_CHARSET)
    try:
        form = await request.form(**limits)
    except UnicodeError:
        # Starlette replaces undecodable bytes. Some charsets raise all the same.
        raise InvalidRequestError(_OTHER_CHARSET) from None
    except OSError as error:
        raise storage_error("The upload cannot be stored", error) from error
    try:
        yield form
    finally:
        await form.close()


def describe_form(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a form for OpenAPI."""
    content = {"multipart/form-data": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def from_json(value: Any) -> Any:
    """Return what a field holds that is written as JSON. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None
