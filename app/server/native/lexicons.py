"""Pronunciation lexicons of a key: upload, list, show and delete."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from app.errors import BodyTooLargeError, InvalidRequestError
from app.lexicons.store import StoredLexicon
from app.server.forms import describe_form, read_form
from app.server.schemas import LexiconDeleted, LexiconDetail, LexiconItem, LexiconList, LexiconSummary, LexiconUpload
from app.server.state import Services, services
from app.text.lexicon_files import MAX_BYTES
from app.threads import REQUESTS

router = APIRouter()

PATH = "/v1/lexicons"
# Characters of speech that an upload costs its key.
UPLOAD_CHARACTERS = 200
_TEXT_BYTES = 4_096


@router.post(PATH, openapi_extra=describe_form(LexiconUpload))
async def create(request: Request) -> LexiconSummary:
    """Keep a lexicon: a file of W3C's PLS, or lines of two columns."""
    app = services(request)
    async with read_form(request, max_files=1, max_fields=3, max_part_size=_TEXT_BYTES) as form:
        return summary(await keep(app, form, language=_text(form, "language")))


async def keep(app: Services, form: FormData, *, language: str | None = None) -> StoredLexicon:
    """Keep the file of a form. Raises InvalidRequestError, BodyTooLargeError, StorageError."""
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise InvalidRequestError("The form needs a 'file': PLS, or lines of two columns.", param="file")
    with app.admission.admit(UPLOAD_CHARACTERS):
        data = await upload.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BodyTooLargeError(f"The lexicon is too large; at most {MAX_BYTES} bytes are accepted.")
        return await app.speech.lexicons.add(_text(form, "name") or upload.filename or "lexicon", data, language)


@router.get(PATH)
async def listing(request: Request) -> LexiconList:
    """Return the lexicons that the key may use, the oldest first."""
    return LexiconList(data=[summary(each) for each in await services(request).speech.lexicons.lexicons()])


@router.get(PATH + "/{lexicon_id}", response_model=LexiconDetail)
async def lexicon(request: Request, lexicon_id: str) -> Response:
    """Return a lexicon with its entries."""
    lexicons = services(request).speech.lexicons
    stored = await lexicons.get(lexicon_id)
    read = await lexicons.read(stored)

    def detail() -> str:
        items = [LexiconItem(grapheme=each.grapheme, phonemes=each.phonemes, alias=each.alias) for each in read.entries]
        return LexiconDetail(**summary(stored).model_dump(), entries=items).model_dump_json()

    async with lexicons.turns.place():
        return Response(await REQUESTS.run(detail), media_type="application/json")


@router.delete(PATH + "/{lexicon_id}")
async def delete(request: Request, lexicon_id: str) -> LexiconDeleted:
    """Delete a lexicon."""
    await services(request).speech.lexicons.remove(lexicon_id)
    return LexiconDeleted(id=lexicon_id)


def summary(stored: StoredLexicon) -> LexiconSummary:
    """Describe an uploaded lexicon."""
    return LexiconSummary(
        id=stored.id,
        name=stored.name,
        created_at=stored.created,
        language=stored.language,
        count=stored.count,
    )


def _text(form: FormData, name: str) -> str | None:
    value = form.get(name)
    return value.strip() or None if isinstance(value, str) else None
