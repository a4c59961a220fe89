"""Bodies that are forms, `multipart/form-data` or `application/x-www-form-urlencoded`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request

from app.errors import InvalidRequestError


@asynccontextmanager
async def read_form(request: Request, **limits: Any) -> AsyncIterator[FormData]:
    """The form that `request` carries; its files are closed in the end. `limits`: of Starlette's `Request.form`.

    Raises InvalidRequestError where its text is not in the charset that it names, HTTPException where it is no form.
    """
    try:
        form = await request.form(**limits)
    except UnicodeError:
        # Starlette replaces what a charset cannot decode. Some of Python's say so in another way, such as Punycode.
        raise InvalidRequestError("The form is not in the charset that it names; send UTF-8.") from None
    try:
        yield form
    finally:
        await form.close()
