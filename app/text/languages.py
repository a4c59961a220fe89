"""Languages that can be spoken, and their names."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import UnsupportedLanguageError


@dataclass(frozen=True, slots=True)
class Language:
    """One language by its BCP-47 tag. `extra_needed` names the optional dependency group that it needs, if any."""

    tag: str
    name: str
    aliases: tuple[str, ...]
    extra_needed: str | None = None


# The one-letter aliases are those of Kokoro's voice names.
LANGUAGES: tuple[Language, ...] = (
    Language("en-us", "American English", ("en", "eng", "a", "american", "english")),
    Language("en-gb", "British English", ("en-uk", "b", "british")),
    Language("de", "German", ("d", "de-de", "de-at", "de-ch", "deu", "ger", "german")),
    Language("es", "Spanish", ("e", "es-es", "es-419", "es-mx", "es-us", "spa", "spanish")),
    Language("fr-fr", "French", ("f", "fr", "fra", "french")),
    Language("hi", "Hindi", ("h", "hi-in", "hin", "hindi")),
    Language("it", "Italian", ("i", "it-it", "ita", "italian")),
    Language("pt-br", "Brazilian Portuguese", ("p", "pt", "por", "portuguese")),
    Language("ja", "Japanese", ("j", "ja-jp", "jp", "jpn", "japanese"), extra_needed="ja"),
    Language("zh", "Mandarin Chinese", ("z", "zh-cn", "zh-hans", "zh-hans-cn", "cmn", "chinese"), extra_needed="zh"),
)

_BY_NAME = {name: language for language in LANGUAGES for name in (language.tag, *language.aliases)}


def normalize_language(tag: str) -> str:
    """Return the canonical tag of a language given by tag or alias, in any case, with `-` or `_`.

    Raises UnsupportedLanguageError, which lists the accepted tags.
    """
    return find_language(tag).tag


def find_language(tag: str) -> Language:
    """Return the language named by a tag or alias. Raises UnsupportedLanguageError."""
    language = _BY_NAME.get(tag.strip().lower().replace("_", "-"))
    if language is None:
        accepted = ", ".join(f"{item.tag} ({item.name})" for item in LANGUAGES)
        raise UnsupportedLanguageError(f"language {tag[:40]!r} is not supported; accepted are: {accepted}")
    return language


def nearest_language(tag: str, preferred: str = "en-us") -> str | None:
    """Return the tag of the language named by a tag or alias, or of its nearest variety; None: it cannot be spoken.

    `preferred` counts where a tag names no variety, such as "en".
    """
    name = tag.strip().lower().replace("_", "-")
    primary = name.split("-", maxsplit=1)[0]
    if name == primary and preferred.split("-", maxsplit=1)[0] == primary:
        return preferred
    known = _BY_NAME.get(name) or _BY_NAME.get(primary)
    return None if known is None else known.tag


def is_spoken(tag: str) -> bool:
    """Return whether a tag or alias names one of `LANGUAGES`."""
    return tag.strip().lower().replace("_", "-") in _BY_NAME


def language_name(tag: str) -> str:
    """Return the English name of a language given by tag or alias, or the tag itself if it cannot be spoken."""
    language = _BY_NAME.get(tag.strip().lower().replace("_", "-"))
    return tag if language is None else language.name


# ISO 639-3 codes of FLORES-200, and the shorter code of the language or its macrolanguage.
_SHORTER = """
    afr:af als:sq amh:am arb:ar asm:as azb:az azj:az bak:ba bel:be ben:bn bod:bo bos:bs bul:bg cat:ca ces:cs
    cym:cy dan:da deu:de dzo:dz ell:el eng:en epo:eo est:et eus:eu fao:fo fij:fj fin:fi fra:fr gaz:om gla:gd
    gle:ga glg:gl grn:gn guj:gu hat:ht hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy ibo:ig ind:id isl:is ita:it
    jav:jv jpn:ja kan:kn kas:ks kat:ka kaz:kk khk:mn khm:km kin:rw kir:ky kmr:ku kor:ko lao:lo lim:li lin:ln
    lit:lt ltz:lb lug:lg lvs:lv mal:ml mar:mr mkd:mk mlt:mt mri:mi mya:my nld:nl nno:nn nob:nb npi:ne nya:ny
    oci:oc ory:or pan:pa pbt:ps pes:fa plt:mg pol:pl por:pt prs:fa ron:ro run:rn rus:ru sag:sg san:sa sin:si
    slk:sk slv:sl smo:sm sna:sn snd:sd som:so sot:st spa:es srd:sc srp:sr ssw:ss sun:su swe:sv swh:sw tam:ta
    tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzn:uz
    vie:vi wol:wo xho:xh ydd:yi yor:yo zho:zh zsm:ms zul:zu
"""
_ISO_639_1 = dict(pair.split(":") for pair in _SHORTER.split())


def primary_language(tag: str) -> str:
    """Return the shortest ISO 639 code of a language named by BCP-47 tag, FLORES-200 code or alias.

    Never raises. For an unknown tag, returns its first subtag in lower case.
    """
    name = tag.strip().lower().replace("_", "-")
    known = _BY_NAME.get(name)
    primary = (known.tag if known else name).split("-", maxsplit=1)[0]
    return _ISO_639_1.get(primary, primary)
