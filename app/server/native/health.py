"""Liveness, readiness and metrics, for operators and probes.

None of these waits for the model thread, so they answer while it computes.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from starlette.responses import JSONResponse, Response

from app.engine.model_loader import ModelState, ModelStatus
from app.observability import gpu, metrics
from app.server.schemas import Readiness
from app.server.state import services
from app.threads import REQUESTS

router = APIRouter()

FAILED = (ModelStatus.FAILED, ModelStatus.ABSENT)


@router.get("/livez")
async def livez(request: Request) -> JSONResponse:
    """Return 200 while the model thread shows progress; 503 when it is dead or stuck, and only a restart helps."""
    app = services(request)
    age = app.worker.heartbeat_age
    alive = app.worker.alive and age < app.settings.liveness_seconds
    body = {"status": "alive" if alive else "stuck", "heartbeat_age_seconds": round(age, 3)}
    return JSONResponse(body, 200 if alive else 503)


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Return 200 once every model to be served is warm; 503 with the progress before, and while draining."""
    app = services(request)
    states = app.states()
    status = "starting"
    if app.admission.draining:
        status = "draining"
    elif app.ready:
        status = "ready"
    elif app.speech.front_end == "failed" or any(state.status in FAILED for state in states):
        status = "failed"
    body = Readiness.model_validate(
        {"status": status, "models": [_progress(state) for state in states], "text": app.speech.front_end}
    )
    return JSONResponse(body.model_dump(), 200 if status == "ready" else 503)


@router.get("/metrics")
async def scrape(request: Request) -> Response:
    """Return the metrics in Prometheus' text format, or in OpenMetrics with exemplars if the client accepts it."""
    app = services(request)
    for priority, depth in app.worker.depth().items():
        metrics.queue_depth.labels(priority.label).set(depth)
    metrics.heartbeat_age.set(app.worker.heartbeat_age)
    metrics.ready.set(app.ready)
    metrics.active_streams.set(app.admission.active)
    metrics.predicted_load.set(app.admission.load)
    # The first call may import MLX.
    await REQUESTS.run(_read_device)
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(REGISTRY), headers={"content-type": media_type})


def _read_device() -> None:
    metrics.read_memory()
    gpu.read()


def _progress(state: ModelState) -> dict[str, Any]:
    progress: dict[str, Any] = {"name": state.name, "status": state.status.value}
    if state.step is not None:
        progress["warm"] = {
            "done": state.step.done,
            "total": state.step.total,
            "last": state.step.name,
            "last_seconds": round(state.step.seconds, 3),
        }
    if state.status is ModelStatus.READY:
        progress["seconds"] = round(state.seconds, 3)
    if state.error is not None:
        progress["error"] = state.error
    return progress
