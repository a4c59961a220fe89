"""ElevenLabs' pronunciation dictionaries: lexicons under other names, with one version each."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.lexicons.store import StoredLexicon
from app.server.elevenlabs.schemas import DictionaryRules, ElevenDictionaries, ElevenDictionary
from app.server.forms import read_form
from app.server.native.lexicons import UPLOAD_CHARACTERS, keep
from app.server.state import services
from app.text.lexicon import Lexicon, make_entry

router = APIRouter()

PATH = "/v1/pronunciation-dictionaries"
_FIELDS = 4
_TEXT_BYTES = 4_096


@router.post(PATH + "/add-from-file")
async def add_from_file(request: Request) -> ElevenDictionary:
    """Keep a file of W3C's PLS, or lines of two columns."""
    async with read_form(request, max_files=1, max_fields=_FIELDS, max_part_size=_TEXT_BYTES) as form:
        return _entry(await keep(services(request), form))


@router.post(PATH + "/add-from-rules")
async def add_from_rules(request: Request, body: DictionaryRules) -> ElevenDictionary:
    """Keep a list of rules."""
    app = services(request)
    entries = [
        make_entry(
            rule.string_to_replace,
            phonemes=rule.phoneme if rule.type == "phoneme" else "",
            alphabet=rule.alphabet,
            alias=rule.alias,
            any_case=not rule.case_sensitive,
        )
        for rule in body.rules
    ]
    lexicon = Lexicon(entries)
    with app.admission.admit(UPLOAD_CHARACTERS):
        return _entry(await app.speech.lexicons.add(body.name, lexicon))


@router.get(PATH)
async def listing(request: Request) -> ElevenDictionaries:
    """List the lexicons that the key may use."""
    result = await services(request).speech.lexicons.lexicons()
    return ElevenDictionaries(pronunciation_dictionaries=[_entry(each) for each in result])


@router.get(PATH + "/{dictionary_id}")
async def dictionary(request: Request, dictionary_id: str) -> ElevenDictionary:
    """Return one lexicon."""
    return _entry(await services(request).speech.lexicons.get(dictionary_id))


def _entry(stored: StoredLexicon) -> ElevenDictionary:
    return ElevenDictionary(
        id=stored.id,
        name=stored.name,
        version_id=stored.id,
        latest_version_id=stored.id,
        version_rules_num=stored.count,
        latest_version_rules_num=stored.count,
        creation_time_unix=stored.created,
    )
