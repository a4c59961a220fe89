"""Bodies that are forms: `multipart/form-data` or `application/x-www-form-urlencoded`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request

from app.errors import InvalidRequestError, storage_error


@asynccontextmanager
async def read_form(request: Request, **limits: Any) -> AsyncIterator[FormData]:
    """Yield the form that `request` carries, and close its files in the end. `limits` are those of `Request.form`.

    Raises InvalidRequestError if its text is not in the charset that it names, HTTPException if it is no form, and
    StorageError.
    """
    try:
        form = await request.form(**limits)
    except UnicodeError:
        # Starlette replaces undecodable bytes. Some charsets of Python, such as Punycode, raise all the same.
        raise InvalidRequestError("The form is not in the charset that it names; send UTF-8.") from None
    except OSError as error:
        raise storage_error("The upload cannot be stored", error) from error
    try:
        yield form
    finally:
        await form.close()


def from_json(value: Any) -> Any:
    """Return what a field holds that is written as JSON. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None
