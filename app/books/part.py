"""Books as a part of the application: jobs that read documents aloud while nobody else is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app.books import routes
from app.books.runner import JobRunner
from app.books.schemas import PATH
from app.books.service import FORM_BYTES, JobService
from app.server.middleware.key_file import KeyFile
from app.server.part import Part
from app.server.state import Services


@asynccontextmanager
async def _serving(app: FastAPI, services: Services, keys: KeyFile | None) -> AsyncIterator[None]:
    jobs = JobService(services.settings, services.speech, services.settings.data_dir / "jobs")
    if keys is not None:
        jobs.client_named = lambda name: keys.keys().named(name)
    app.state.jobs = jobs
    background = asyncio.create_task(_work(services, jobs))
    try:
        yield
    finally:
        await background
        jobs.close()


async def _work(services: Services, jobs: JobService) -> None:
    """Work on jobs from the time that everything is warm until the server drains. A restart goes on with them."""
    if services.settings.jobs and await services.until_ready():
        runner = JobRunner(jobs)
        runner.start()
        await services.admission.drained()
        await runner.stop()


BOOKS = Part(routes.router, "Jobs", lambda settings: {PATH: settings.max_document_bytes + FORM_BYTES}, _serving)
