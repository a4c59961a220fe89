"""Models of the server: their list, as OpenAI's surface has it, and loading and unloading them."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from app.config import is_loopback
from app.engine.admission import client
from app.engine.catalog import OPENAI_RECOGNIZERS, ModelInfo
from app.engine.model_loader import ModelState, ModelStatus
from app.engine.unloading import used
from app.errors import DrainingError, PermissionDeniedError, UnknownModelError
from app.request_context import wait_preference
from app.server.exchange import ClientGoneError, until_gone
from app.server.schemas import LoadProgress, ModelEntry, ModelList
from app.server.state import Services, services
from app.translation.text import codes
from models.contract import SAMPLING_RANGES

router = APIRouter()

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": ModelEntry, "description": "It is under way: ask for the model, or send `Prefer: wait`."}
}


@router.get("/v1/models")
@router.get("/v1/audio/models")
async def models(request: Request) -> ModelList:
    """Return every model of the catalog, and what they compute with."""
    app = services(request)
    entries = [_entry(app, info) for info in app.catalog.models()]
    listed = ModelList(models=entries, data=entries, memory_budget=app.settings.memory_budget or None)
    hardware = app.worker.loader.hardware
    if hardware is not None:
        listed.device, listed.kernels = hardware.device, hardware.kernels
    listed.memory_used = used(app.worker.state(info.name) for info in app.catalog.models())
    return listed


@router.get("/v1/models/{name}")
async def model(request: Request, name: str) -> ModelEntry:
    """Return one model. Raises UnknownModelError."""
    app = services(request)
    return _model(app, _canonical(app, name))


@router.post("/v1/models/{name}/load", responses=_ACCEPTED)
async def load(request: Request, name: str) -> Response:
    """Load a model, also one that failed before; needs an admin key. With `Prefer: wait`, wait until it is ready."""
    app, canonical = _administered(request, name)
    state = app.loads.load(canonical, again=True)
    await _wait(request, app, state, ModelStatus.READY)
    if state.status is not ModelStatus.READY and not state.under_way:
        raise state.unready()
    return _answer(app, canonical, done=state.status is ModelStatus.READY)


@router.post("/v1/models/{name}/unload", responses=_ACCEPTED)
async def unload(request: Request, name: str) -> Response:
    """Unload a model once nobody uses it; needs an admin key. With `Prefer: wait`, wait until it is unloaded."""
    app, canonical = _administered(request, name)
    state = app.worker.request_unload(canonical)
    await _wait(request, app, state, ModelStatus.IDLE)
    return _answer(app, canonical, done=state.model is None and not state.under_way)


def _canonical(app: Services, name: str) -> str:
    """Return the catalog's name of a model. Raises UnknownModelError."""
    if name.strip().lower() in OPENAI_RECOGNIZERS:
        return app.recognition.model_name(name)
    return app.speech.model_name(name)


def _administered(request: Request, name: str) -> tuple[Services, str]:
    """Return the services, and the catalog's name of a model that the request loads or unloads.

    Raises PermissionDeniedError unless it may. Without a file of keys, whoever reaches a server that listens on this
    machine alone owns it.
    """
    app = services(request)
    canonical = _canonical(app, name)
    if app.admission.draining:
        raise DrainingError("The server is shutting down.")
    who = client.get()
    if who is not None and who.admin:
        return app, canonical
    if who is None and app.settings.keys_file is None:
        if is_loopback(app.settings.host):
            return app, canonical
        raise PermissionDeniedError(
            "To load and unload models needs an admin key: name a file of keys in the setting 'keys_file', with "
            "'admin = true' in the entry of one."
        )
    raise PermissionDeniedError("To load and unload models needs a key whose entry has 'admin = true'.")


async def _wait(request: Request, app: Services, state: ModelState, until: ModelStatus) -> None:
    """Wait for the end of a load or an unload, if the request asks to and its client stays."""
    preference = wait_preference.get()
    if preference is None or not preference.asked:
        return
    waiting = app.loads.wait(state, seconds=app.loads.patience(), until=until)
    try:
        await until_gone(request.receive, app.admission.aborted(), waiting)
    except ClientGoneError:
        return


def _answer(app: Services, name: str, *, done: bool) -> Response:
    return JSONResponse(_model(app, name).model_dump(), 200 if done else 202)


def _model(app: Services, name: str) -> ModelEntry:
    for info in app.catalog.models():
        if info.name == name:
            return _entry(app, info)
    raise UnknownModelError(f"There is no model '{name[:100]}'.")


def _entry(app: Services, info: ModelInfo) -> ModelEntry:
    defaults = (
        app.speech.default_model,
        app.catalog.default_translator(),
        app.recognition.default_model,
        app.catalog.default_language_model(),
    )
    held = app.worker.state(info.name)
    absent = info.status == "absent"
    status = {
        ModelStatus.IDLE: "absent" if absent else "available",
        ModelStatus.WARMING: "loading",
    }.get(held.status, held.status.value)
    # What was loaded is known: sampling parameters of a model that speaks, and languages as BCP-47 tags.
    loaded = held.description if held.available else None
    parameters = languages = None
    if loaded is not None:
        tag = codes.tag if held.kind == "translation" else str
        languages = [tag(code) for code in loaded.languages]
        if held.kind == "text-to-speech":
            parameters = [name for name in SAMPLING_RANGES if name in loaded.parameters]
    return ModelEntry(
        id=info.name,
        name=info.name,
        status=status,
        kind=info.kind,
        default=info.name in defaults,
        description=info.description,
        license=info.license,
        commercial_use=info.commercial_use,
        aliases=list(info.aliases),
        cloning=info.cloning,
        preloaded=info.name in app.preload,
        memory_bytes=held.memory,
        progress=_progress(held),
        error=held.error,
        requests=held.requests,
        idle_unload_seconds=app.worker.rules.idle_limit(info.name),
        parameters=parameters,
        install_command=info.install_command if absent else None,
        install_hint=info.install_hint if absent else None,
        languages=languages,
    )


def _progress(state: ModelState) -> LoadProgress | None:
    """Return the progress of a model that is being loaded."""
    if not state.under_way:
        return None
    step = state.step
    seconds = round(time.monotonic() - state.begun, 3) if state.begun else 0.0
    if step is None:
        return LoadProgress(step="warm" if state.status is ModelStatus.WARMING else "load", seconds=seconds)
    return LoadProgress(step="warm", name=step.name, done=step.done, total=step.total, seconds=seconds)
