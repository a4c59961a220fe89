"""`WS /v1/realtime/translations` and `POST /v1/realtime/translations/client_secrets`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from app.errors import InvalidRequestError, PermissionDeniedError
from app.server.exchange import JsonRoute
from app.server.middleware.access import client_secret
from app.server.openai.realtime.events import new_id
from app.server.openai.realtime.routes import ExpiresAfter, SecretReply
from app.server.openai.realtime.secrets import sign_secret
from app.server.openai.realtime.translation import TranslationSocket
from app.server.openai.realtime.translation_config import TranslationConfig, configured
from app.server.state import services

router = APIRouter(route_class=JsonRoute)

PATH: Final = "/v1/realtime/translations"
_KIND: Final = "translation"


@router.websocket(PATH)
async def translations(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    choose = partial(TranslationConfig.options, query=socket.query_params, catalog=app.catalog)
    config = _config(socket)
    choose(config)
    await socket.accept()
    await TranslationSocket(socket, app, config, choose).serve()


def _config(socket: WebSocket) -> TranslationConfig:
    """Return the configuration that the address and the client secret name.

    Raises InvalidRequestError, and PermissionDeniedError for a secret of another kind.
    """
    secret = client_secret(socket.headers)
    if secret is not None and secret.kind != _KIND:
        raise PermissionDeniedError("This client secret is for sessions of another kind.")
    given = {} if secret is None else dict(secret.session)
    model = socket.query_params.get("model") or given.get("model")
    if not model:
        raise InvalidRequestError("Name the model in the address: '?model=gpt-realtime-translate'.", param="model")
    if "intent" in socket.query_params:
        raise InvalidRequestError("Sessions of translation have no 'intent'.", param="intent")
    return configured({**given, "model": model})


class TranslationSecretBody(BaseModel):
    """`POST /v1/realtime/translations/client_secrets`: what the secret is for."""

    expires_after: ExpiresAfter = ExpiresAfter()
    session: Annotated[
        dict[str, Any], Field(description="`model`, and the configuration of a session, as in `session.update`")
    ]


@router.post(PATH + "/client_secrets", response_model=SecretReply)
async def make_translation_secret(request: Request, body: TranslationSecretBody) -> JSONResponse:
    """Make a short-lived key for a client that must not have a real one, such as a web page."""
    config = configured(body.session)
    app = services(request)
    await app.interpretation.prepare(config.options({}, app.catalog))
    value, expires_at = sign_secret(_KIND, config.model_dump(exclude_unset=True), body.expires_after.seconds)
    shown = {"id": new_id("sess"), "expires_at": expires_at, **config.shown()}
    return JSONResponse({"value": value, "expires_at": expires_at, "session": shown})
