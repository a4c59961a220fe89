"""`WS /v1/realtime` and `POST /v1/realtime/client_secrets`."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from app.engine.admission import client
from app.engine.catalog import OPENAI_RECOGNIZERS
from app.errors import InvalidRequestError, ServiceError
from app.server.error_responses import error_response
from app.server.exchange import JsonRoute
from app.server.middleware.access import client_secret
from app.server.realtime.config import TranscriptionConfig
from app.server.realtime.ids import new_id
from app.server.realtime.secrets import ClientSecret
from app.server.realtime.transcription import TranscriptionSocket
from app.server.state import Services, services

router = APIRouter(route_class=JsonRoute)

PATH: Final = "/v1/realtime"
# OpenAI's models of conversation, which clients name where they mean a session of transcription.
_CONVERSATION: Final = ("gpt-realtime", "gpt-4o-realtime", "gpt-4o-mini-realtime", "gpt-audio")


@router.websocket(PATH)
async def realtime(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    try:
        config = _config(socket, app)
    except ServiceError as error:
        await socket.send_denial_response(error_response(error, path=PATH))
        return
    await socket.accept()
    await TranscriptionSocket(socket, app, config).serve()


def _config(socket: WebSocket, app: Services) -> TranscriptionConfig:
    """Return the configuration that the address and the client secret name. Raises ServiceError."""
    secret = client_secret(socket.headers)
    given = secret.session if secret is not None and secret.kind == "realtime" else {}
    intent, model = socket.query_params.get("intent"), socket.query_params.get("model")
    named = model is not None and not model.lower().startswith(_CONVERSATION)
    if intent != "transcription" and not given and not (intent is None and model in OPENAI_RECOGNIZERS):
        raise InvalidRequestError(
            "Only sessions of transcription are served here: add '?intent=transcription' to the address.",
            param="intent",
        )
    config = TranscriptionConfig().changed(given)
    if named and config.audio.input.transcription.model is None:
        config = config.changed({"audio": {"input": {"transcription": {"model": model}}}})
    app.recognition.model_name(config.audio.input.transcription.model)
    return config


class ExpiresAfter(BaseModel):
    """Time at which a secret expires."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7_200, description="from now on")] = 600


class SecretBody(BaseModel):
    """`POST /v1/realtime/client_secrets`: what the secret is for."""

    expires_after: ExpiresAfter = ExpiresAfter()
    session: Annotated[
        dict[str, Any],
        Field(description="configuration of a session of the type `transcription`, as in `session.update`"),
    ] = {"type": "transcription"}


class SecretReply(BaseModel):
    """A client secret: a key for WS /v1/realtime alone."""

    value: str
    expires_at: int
    session: dict[str, Any]


@router.post(PATH + "/client_secrets", response_model=SecretReply)
async def make_secret(request: Request, body: SecretBody) -> Response:
    """Make a short-lived key for a client that must not have a real one, such as a web page."""
    config = TranscriptionConfig().changed(body.session)
    await services(request).recognition.check_live(config.options)
    owner = client.get()
    expires_at = round(time.time()) + body.expires_after.seconds
    session = config.model_dump(exclude_unset=True) | {"type": "transcription"}
    secret = ClientSecret("realtime", None if owner is None else owner.name, session, expires_at)
    shown = config.model_dump(exclude_none=True)
    head = {"id": new_id("sess"), "object": "realtime.transcription_session", "expires_at": 0}
    reply = SecretReply(value=secret.sign(), expires_at=expires_at, session=head | shown)
    return JSONResponse(reply.model_dump(), headers={"cache-control": "no-store"})
