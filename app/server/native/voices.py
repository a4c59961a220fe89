"""Voices: those of a model, and those that are made from a recording.

The upload is OpenAI's (`POST /v1/audio/voices` of its API reference), except that `consent` is a statement and not the
id of a consent recording. Bodies are spooled to disk while they come, a bounded number at once; few recordings are in
memory at once. A voice belongs to the key that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.datastructures import FormData, UploadFile
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from app import errors
from app.server.exchange import ClientGoneError, until_gone
from app.server.forms import describe_form, read_form
from app.server.schemas import VoiceDeleted, VoiceEntry, VoiceList, VoiceUpload
from app.server.spooled_upload import spooled
from app.server.state import Services, services
from app.voices.aliases import resolve_alias
from app.voices.service import NewVoice, VoiceService, new_voice
from app.voices.store import StoredVoice, is_voice_id
from models.contract import Description, Voice

router = APIRouter()

PATH = "/v1/audio/voices"
# Fields of a recording: OpenAI's name for it, and names that people try first.
AUDIO_FIELDS = ("audio_sample", "audio", "file")
FIELDS = (*AUDIO_FIELDS, "name", "consent", "language", "gender", "type")
_TEXT_BYTES = 4_096
# Characters of speech, about a minute of sound, that an upload costs its key.
UPLOAD_CHARACTERS = 1_000


@router.post(PATH, response_model=VoiceEntry, status_code=200, openapi_extra=describe_form(VoiceUpload))
async def create(request: Request) -> Response:
    """Make a voice from a recording of somebody who agrees to it."""
    app = services(request)
    try:
        with spooled(request, app.speech.voices.spool) as counted:
            async with read_form(counted, max_files=1, max_fields=len(FIELDS), max_part_size=_TEXT_BYTES) as form:
                stored = await _keep(request, app, form)
    except (ClientDisconnect, ClientGoneError):
        return Response(status_code=400)  # the client has left
    except OSError as error:
        raise errors.storage_error("The upload cannot be stored", error) from error
    return JSONResponse(cloned_entry(stored).model_dump())


async def _keep(request: Request, app: Services, form: FormData) -> StoredVoice:
    """Keep the recording of a whole form. It takes a slot only now: its sender may have been slow."""
    upload = _recording(form)
    asked = new_voice(
        _text(form, "name") or "",
        consent=(_text(form, "consent") or "").strip().lower() == "true",
        language=_text(form, "language"),
        gender=_text(form, "gender"),
    )
    with app.admission.admit(UPLOAD_CHARACTERS):
        return await until_gone(request.receive, app.admission.aborted(), _add(app.speech.voices, asked, upload))


async def _add(voices: VoiceService, asked: NewVoice, upload: UploadFile) -> StoredVoice:
    async with voices.uploads:
        return await voices.add(asked, await upload.read())


@router.get(PATH)
async def listing(
    request: Request,
    model: Annotated[str | None, Query(description="a name of GET /v1/models; default: the default model")] = None,
    kind: Annotated[
        Literal["builtin", "cloned"] | None,
        Query(description="only the model's own voices, or only cloned ones; these may be asked for without a model"),
    ] = None,
) -> VoiceList:
    """Return the voices that a model can speak in; default: the default model."""
    app = services(request)
    entries: list[VoiceEntry] = []
    if kind == "cloned" and model is None:
        entries = [cloned_entry(voice) for voice in await app.speech.voices.voices()]
        return VoiceList(voices=entries, data=entries)
    name, known = await app.speech.describe(model)
    if kind != "cloned":
        entries += [own_entry(voice, name, known) for voice in known.voices]
    if kind != "builtin" and known.clones:
        languages = list(known.languages)
        entries += [cloned_entry(voice, name, languages) for voice in await app.speech.voices.voices()]
    return VoiceList(voices=entries, data=entries)


@router.get(PATH + "/{voice_id}")
async def voice(request: Request, voice_id: str, model: Annotated[str | None, Query()] = None) -> VoiceEntry:
    """Return one voice: a cloned one, or one of the model's own, by its id or by another service's name for it."""
    app = services(request)
    if is_voice_id(voice_id):
        with _not_found():
            return cloned_entry(await app.speech.voices.get(voice_id))
    name, known = await app.speech.describe(model)
    wanted = resolve_alias(voice_id, known)
    for voice in known.voices:
        if voice.id == wanted:
            return own_entry(voice, name, known)
    raise errors.NotFoundError(f"Model '{name}' has no voice '{voice_id[:40]}'.", param="voice_id")


@router.delete(PATH + "/{voice_id}")
async def delete(request: Request, voice_id: str) -> VoiceDeleted:
    """Delete a cloned voice and its recording. Speech under way is finished."""
    with _not_found():
        await services(request).speech.voices.remove(voice_id)
    return VoiceDeleted(id=voice_id)


def own_entry(voice: Voice, model: str, known: Description) -> VoiceEntry:
    """Return a model's own voice as it is listed."""
    return VoiceEntry(
        id=voice.id,
        name=voice.id,
        language=voice.language,
        gender=voice.gender,
        model=model,
        languages=list(known.languages),
    )


def cloned_entry(voice: StoredVoice, model: str | None = None, languages: list[str] | None = None) -> VoiceEntry:
    """Return a cloned voice as it is listed."""
    return VoiceEntry(
        id=voice.id,
        name=voice.name,
        language=voice.language,
        gender=voice.gender,
        model=model,
        languages=languages,
        object="audio.voice",
        kind="cloned",
        created_at=voice.created,
        duration=voice.seconds,
        type="audio_sample",
    )


@contextmanager
def _not_found() -> Iterator[None]:
    """Answer with 404 where a voice is not known."""
    try:
        yield
    except errors.UnknownVoiceError as error:
        raise errors.NotFoundError(error.message, param="voice_id") from None


def _recording(form: FormData) -> UploadFile:
    unknown = sorted(set(form) - set(FIELDS))
    if unknown:
        raise errors.InvalidRequestError(
            f"Unknown parameter: '{unknown[0][:40]}'; accepted are {', '.join(FIELDS)}.", param=unknown[0][:40]
        )
    if _text(form, "type") not in (None, "audio_sample"):
        raise errors.InvalidRequestError("'type' must be audio_sample: voices are made from recordings.", param="type")
    for field in AUDIO_FIELDS:
        given = form.get(field)
        if isinstance(given, UploadFile):
            return given
        if given is not None:
            raise errors.UnusableRecordingError(f"'{field}' must be a file.", param=field)
    raise errors.InvalidRequestError(
        "Missing required parameter: 'audio_sample', the recording, in a body of 'multipart/form-data'.",
        param="audio_sample",
    )


def _text(form: FormData, field: str) -> str | None:
    value = form.get(field)
    if isinstance(value, UploadFile):
        raise errors.InvalidRequestError(f"'{field}' must be text, not a file.", param=field)
    return value
