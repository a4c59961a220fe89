"""Route whose endpoint takes one JSON body and nothing else, without FastAPI's solver of dependencies."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from app.errors import InvalidRequestError


class JsonRoute(APIRoute):
    """Call the endpoint with the request and its body, an instance of the pydantic model that the endpoint names.

    The OpenAPI description and the errors are those of FastAPI's own route.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that reads the body and calls the endpoint."""
        model, endpoint = body_model(self), self.endpoint
        if model is None:
            raise TypeError(f"the endpoint of {self.path} takes no pydantic model")

        async def handle(request: Request) -> Response:
            response: Response = await endpoint(request, read_json(request, await request.body(), model))
            return response

        return handle


def body_model(route: APIRoute) -> type[BaseModel] | None:
    """Return the pydantic model of the body that `route` takes, or None."""
    model = route.body_field.field_info.annotation if route.body_field else None
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def read_json(request: Request, body: bytes, model: type[BaseModel]) -> BaseModel:
    """Return `body` as a `model`.

    Raises InvalidRequestError for a body that is not JSON, RequestValidationError for one that does not fit the model.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body or not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        raise InvalidRequestError("The body must be a JSON object sent with 'Content-Type: application/json'.")
    try:
        found = json.loads(body)
    except json.JSONDecodeError as error:
        raise InvalidRequestError(f"The body is not valid JSON: {error.msg}.") from None
    except (ValueError, RecursionError):
        raise InvalidRequestError("There was an error parsing the body.") from None
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
