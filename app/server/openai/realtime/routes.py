"""`WS /v1/realtime`, `POST /v1/realtime/client_secrets` and the older `POST /v1/realtime/transcription_sessions`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from app.engine.catalog import OPENAI_RECOGNIZERS
from app.server.exchange import JsonRoute
from app.server.middleware.access import client_secret
from app.server.openai.realtime.config import TranscriptionConfig, from_old
from app.server.openai.realtime.conversation_config import ConversationConfig
from app.server.openai.realtime.conversation_socket import ConversationSocket
from app.server.openai.realtime.events import new_id
from app.server.openai.realtime.secrets import sign_secret
from app.server.openai.realtime.transcription import TranscriptionSocket
from app.server.state import Services, services

router = APIRouter(route_class=JsonRoute)

PATH: Final = "/v1/realtime"
# OpenAI's models of conversation, which clients name where they mean a session of transcription.
_CONVERSATION: Final = ("gpt-realtime", "gpt-4o-realtime", "gpt-4o-mini-realtime", "gpt-audio")


@router.websocket(PATH)
async def realtime(socket: WebSocket) -> None:
    """Serve one socket, or answer its handshake with an error."""
    app = services(socket)
    config = _config(socket, app)
    await socket.accept()
    if isinstance(config, ConversationConfig):
        await ConversationSocket(
            socket, app, config, socket.query_params.get("model") or app.generation.conversation_model(None)
        ).serve()
    else:
        await TranscriptionSocket(socket, app, config).serve()


def _config(socket: WebSocket, app: Services) -> TranscriptionConfig | ConversationConfig:
    """Return the configuration that the address and the client secret name. Raises ServiceError."""
    secret = client_secret(socket.headers)
    given = secret.session if secret is not None and secret.kind == "realtime" else {}
    intent, model = socket.query_params.get("intent"), socket.query_params.get("model")
    named = model is not None and not model.lower().startswith(_CONVERSATION)
    transcribes = intent == "transcription" or (intent is None and model in OPENAI_RECOGNIZERS)
    if given.get("type") == "realtime" or not (given or transcribes):
        name = app.generation.conversation_model(model)
        return ConversationConfig(model=name).changed(given)
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
        Field(description="configuration of a session, as in `session.update`; `type`: `realtime` or `transcription`"),
    ] = {"type": "transcription"}


class SecretReply(BaseModel):
    """A client secret: a key for WS /v1/realtime alone."""

    value: str
    expires_at: int
    session: dict[str, Any]


@router.post(PATH + "/client_secrets", response_model=SecretReply)
async def make_secret(request: Request, body: SecretBody) -> Response:
    """Make a short-lived key for a client that must not have a real one, such as a web page."""
    app = services(request)
    config: TranscriptionConfig | ConversationConfig = TranscriptionConfig()
    if body.session.get("type") == "realtime":
        model = body.session.get("model")
        config = ConversationConfig(model=app.generation.conversation_model(model if isinstance(model, str) else None))
    config = config.changed(body.session)
    value, expires_at = await _sign(request, config, body.expires_after.seconds)
    shown = config.model_dump(exclude_none=True)
    kind = "realtime.session" if isinstance(config, ConversationConfig) else "realtime.transcription_session"
    head = {"id": new_id("sess"), "object": kind, "expires_at": 0}
    reply = SecretReply(value=value, expires_at=expires_at, session=head | shown)
    return JSONResponse(reply.model_dump(), headers={"cache-control": "no-store"})


class OldExpiry(BaseModel):
    """Time at which the secret of an older session expires."""

    expires_at: ExpiresAfter = ExpiresAfter(seconds=60)


class OldSessionBody(BaseModel):
    """`POST /v1/realtime/transcription_sessions`: the fields of `transcription_session.update`, and `client_secret`."""

    model_config = ConfigDict(extra="allow")

    client_secret: OldExpiry = OldExpiry()


class OldSessionReply(BaseModel):
    """A session in the shape of the older protocol. `client_secret` has `value` and `expires_at`."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    client_secret: dict[str, Any]


@router.post(PATH + "/transcription_sessions", response_model=OldSessionReply)
async def make_session(request: Request, body: OldSessionBody) -> Response:
    """Make a client secret as the older protocol does: with the session that it is for."""
    config = TranscriptionConfig().changed(from_old(body.model_extra or {}))
    value, expires_at = await _sign(request, config, body.client_secret.expires_at.seconds)
    model = config.audio.input.transcription.model or services(request).recognition.default_model
    head = {"id": new_id("sess"), "object": "realtime.transcription_session"}
    secret = {"client_secret": {"value": value, "expires_at": expires_at}}
    return JSONResponse(head | config.shown(model, old=True) | secret, headers={"cache-control": "no-store"})


async def _sign(request: Request, config: TranscriptionConfig | ConversationConfig, seconds: int) -> tuple[str, int]:
    """Return a client secret for a session, and the time at which it expires. Raises ServiceError."""
    await services(request).recognition.check_live(config.options)
    return sign_secret("realtime", config.model_dump(exclude_unset=True) | {"type": config.type}, seconds)
