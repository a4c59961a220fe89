"""Put the application together: routes, middleware and services. `create_app` makes it for any ASGI server."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from app import __version__
from app.audio import watermark
from app.audio.encoders import check_format
from app.books.part import BOOKS
from app.config import Settings, SettingsError
from app.engine.catalog import Catalog
from app.errors import UnknownModelError, UnsupportedFormatError
from app.extras import needs
from app.lifecycle import lifespan
from app.observability import tracing
from app.server import exception_handlers
from app.server.deepgram import LISTEN_PATH
from app.server.deepgram.listen import routes as deepgram_listen
from app.server.deepgram.listen import socket as deepgram_listen_socket
from app.server.deepgram.speak import routes as deepgram_speak
from app.server.deepgram.speak import socket as deepgram_speak_socket
from app.server.elevenlabs import SPEECH_TO_TEXT_PATH
from app.server.elevenlabs import dialogue as elevenlabs_dialogue
from app.server.elevenlabs import dictionaries as elevenlabs_dictionaries
from app.server.elevenlabs import routes as elevenlabs_speech
from app.server.elevenlabs import socket as elevenlabs_socket
from app.server.elevenlabs.speech_to_text import routes as elevenlabs_speech_to_text
from app.server.elevenlabs.speech_to_text import socket as elevenlabs_speech_to_text_socket
from app.server.exchange import check_large_body
from app.server.json_values import MAX_VALUES
from app.server.libretranslate import routes as libretranslate
from app.server.middleware.access import Guard, Hosts
from app.server.middleware.context import RequestContext
from app.server.middleware.key_file import KeyFile, Quotas
from app.server.middleware.limits import BodyLimit, SocketLimits
from app.server.native import health, lexicons, phonemes, stream, translate, voices
from app.server.native.interpret import routes as interpret
from app.server.openai import chat, dialogue, models, speech, transcriptions
from app.server.openai.realtime import routes as realtime
from app.server.openai.realtime import translation_routes
from app.server.pages import routes as pages
from app.server.part import Part

log = logging.getLogger(__name__)


# Routers of all surfaces, each with its heading in the OpenAPI description. WebSockets have none.
_ROUTERS: tuple[tuple[APIRouter, str | None], ...] = (
    (speech.router, "Speech and models"),
    (models.router, "Speech and models"),
    (dialogue.router, "Speech and models"),
    (chat.router, "Language models"),
    (voices.router, "Voices"),
    (transcriptions.router, "Speech recognition"),
    (realtime.router, "Speech recognition"),
    (stream.router, None),
    (interpret.router, None),
    (translation_routes.router, "Speech translation"),
    (phonemes.router, "Speech and models"),
    (lexicons.router, "Lexicons"),
    (translate.router, "Translation"),
    (libretranslate.router, "LibreTranslate"),
    (deepgram_speak.router, "Deepgram"),
    (deepgram_listen.router, "Deepgram"),
    (deepgram_listen_socket.router, None),
    (deepgram_speak_socket.router, None),
    (elevenlabs_speech.router, "ElevenLabs"),
    (elevenlabs_dialogue.router, "ElevenLabs"),
    (elevenlabs_speech_to_text.router, "ElevenLabs"),
    (elevenlabs_speech_to_text_socket.router, None),
    (elevenlabs_dictionaries.router, "ElevenLabs"),
    (elevenlabs_socket.router, None),
    (health.router, "Operation"),
)


# What not everybody needs, and what nothing else of the application knows.
PARTS: tuple[Part, ...] = (BOOKS,)


def create_app(settings: Settings, catalog: Catalog | None = None) -> FastAPI:
    """Return the ASGI application. `catalog` defaults to the models of this machine.

    Raises SettingsError for a model that the catalog does not have, a watermark that cannot be made, a default format
    that no encoder has, or a file of keys that cannot be used.
    """
    known, preload = _models_to_serve(settings, catalog)
    traces = None if settings.otlp_endpoint is None else tracing.to_collector(settings.otlp_endpoint)
    if settings.watermark == "perth" and not watermark.is_installed():
        raise SettingsError(needs("setting 'watermark' = 'perth'", "watermark"))

    try:
        check_format(settings.default_format)
    except UnsupportedFormatError as error:
        raise SettingsError(f"setting 'default_format': {error.message}") from None

    keys = None if settings.keys_file is None else KeyFile(settings.keys_file, Quotas.of(settings))
    app = FastAPI(
        title="Nightingale",
        version=__version__,
        description="Low-latency local speech and translation.",
        lifespan=lifespan(settings, known, preload, traces, keys, PARTS),
        middleware=_middleware(settings, keys),
        dependencies=[Depends(check_large_body)],
        # FastAPI's own pages load scripts from elsewhere; the page of `pages` does not.
        docs_url=None,
        redoc_url=None,
    )
    exception_handlers.install(app)
    routers = (*_ROUTERS, *((part.router, part.heading) for part in PARTS))
    for router, tag in routers:
        app.include_router(router, tags=[tag] if tag else None)
    # Every path that has GET answers HEAD (RFC 9110 section 9.3.2), which FastAPI's routes do not do by themselves. The
    # server keeps the body back.
    heads = APIRouter(include_in_schema=False)
    for router in (pages.router, *(router for router, _ in routers)):
        for route in router.routes:
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
                heads.add_api_route(route.path, route.endpoint, methods=["HEAD"])
    app.include_router(heads)
    pages.install(app)
    return app


def _middleware(settings: Settings, keys: KeyFile | None) -> list[Middleware]:
    """Return the middleware of every path, the outermost first.

    The guards see a request that has its id, before its body is read.
    """
    guard = Middleware(
        Guard,
        keys=keys,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        origins=settings.cors_origins,
        open_metrics=settings.open_metrics,
    )
    recordings = (*transcriptions.PATHS, LISTEN_PATH, SPEECH_TO_TEXT_PATH)
    uploads = {voices.PATH: settings.max_upload_bytes} | dict.fromkeys(recordings, settings.max_recording_bytes)
    for part in PARTS:
        uploads |= part.max_body_bytes(settings)
    values = max(MAX_VALUES, 2 * settings.max_translate_texts)
    return [
        Middleware(RequestContext),
        *_cors(settings),
        guard,
        Middleware(SocketLimits, session_seconds=settings.session_seconds),
        Middleware(BodyLimit, limit=settings.max_body_bytes, uploads=uploads, values=values),
    ]


def _cors(settings: Settings) -> list[Middleware]:
    """Return the middleware that lets pages of other sites in, if the settings name any.

    It stands before the guard: browsers ask for leave without a key. Credentials, which are cookies, never pass.
    """
    if not settings.cors_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=(
                "x-request-id",
                "server-timing",
                "x-sample-rate",
                "x-watermark",
                "retry-after",
                "preference-applied",
            ),
        )
    ]


def _models_to_serve(settings: Settings, catalog: Catalog | None) -> tuple[Catalog, tuple[str, ...]]:
    """Return the catalog, and the names of the models that readiness waits for, the default one for speech first."""
    if catalog is None:
        catalog = Catalog(settings)
    key = "default_model"
    try:
        names = [catalog.default()]
        for key, default in (
            ("translation_model", catalog.default_translator),
            ("recognition_model", catalog.default_recognizer),
        ):
            name = default()
            # It is warmed only where its weights are installed or the settings name it.
            if name is not None and (getattr(settings, key) is not None or catalog.present(name)):
                names.append(name)
        key = "preload"
        names += [catalog.resolve(name) for name in settings.preload]
        key = "idle_unload_seconds"
        for name in settings.idle_unload_seconds:
            if name != "default":
                catalog.resolve(name)
    except UnknownModelError as error:
        raise SettingsError(f"setting '{key}': {error.message}") from None
    return catalog, tuple(dict.fromkeys(names))
