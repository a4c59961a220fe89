"""Parsing of XML, XHTML and HTML of strangers by lxml: no entities, no network, no deep trees."""

from __future__ import annotations

import codecs
import re
import string
from contextlib import suppress
from html.entities import html5
from typing import Any, Final

from lxml import etree, html

from app.books.documents.types import DocumentError
from app.text.word_sets import word_set

# Marks "<" of a page: its tree takes about 200 bytes for each.
MAX_TAGS: Final = 1_000_000

Element = Any
"""Element of lxml, whose types have no annotations."""

_DECLARED: Final = re.compile(
    rb"""(?:<\?xml[^>]*?\bencoding|<meta[^>]*?\bcharset)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.I
)
_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
_DOCTYPE_BEGINS: Final = re.compile("<!DOCTYPE", re.I)
# From there on: a search would begin at each of many.
_DOCTYPE: Final = re.compile(r"<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*+)?>", re.I | re.S)
# libxml2 compares each attribute of an element with all others. Words of a value count, too.
MAX_ATTRIBUTES: Final = 5_000
_TOO_MANY_ATTRIBUTES: Final = re.compile(rf"<[^<>=\s]*+(?:[=\s]++[^<>=\s]*+){{{MAX_ATTRIBUTES}}}")
_REFERENCE: Final = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31};)")
_XML_OWN: Final = frozenset(("amp;", "lt;", "gt;", "quot;", "apos;"))
# Characters that XML forbids, and marks that are not seen: soft hyphens, joins of no width, direction marks.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Bytes that no text of Windows-1252 has, GB 18030, UTF-8, and capitals behind small letters: MacRoman and DOS.
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
_CHINESE: Final = re.compile(rb"(?:([\xb0-\xf7])(?!\1)[\xa1-\xfe]){3}")
_SEQUENCE: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_MISPLACED: Final = re.compile(rb"[a-z][\x82\x8a\x8c\x8e\xc0-\xd6\xd8-\xde]")
_HIGH: Final = bytes(range(0x80, 0x100))
# Encodings that are loaded now, as the process that reads documents opens no file later. Zip archives have cp437.
_ENCODINGS: Final = word_set(
    "cp437 utf-8 ascii latin-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 "
    "iso8859-13 iso8859-15 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8-r koi8-u mac-roman "
    "shift_jis cp932 euc-jp euc-kr cp949 gbk gb2312 gb18030 big5 utf-16 utf-16-le utf-16-be utf-32-le utf-32-be"
)
_KNOWN: Final = frozenset(codecs.lookup(name).name for name in _ENCODINGS)
_DECLARABLE: Final = frozenset(name for name in _KNOWN if not name.startswith(("utf-16", "utf-32")))


def decode_text(data: bytes, *, declared: bool = False) -> str:
    """Return the text of a file: by its byte order mark, by what it declares, else UTF-8, or Windows-1252 if it fits.

    `declared`: the file may name its encoding as XML and HTML do. Raises DocumentError: another encoding, or no text.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
    match = _DECLARED.search(data[:2048]) if declared else None
    if match:
        return _decode(data, _known(match[1].decode("ascii")))
    try:
        return _decode(data, "utf-8")
    except DocumentError:
        if not _is_western(data):
            raise
        return data.decode("cp1252")


def _is_western(data: bytes) -> bool:
    """Return whether bytes that are not UTF-8 may be text of Windows-1252.

    Such text has no control characters, and more ASCII letters than others. Text of other encodings looks otherwise.
    """
    if _NO_TEXT.search(data) or _CHINESE.search(data):
        return False
    high = len(data) - len(data.translate(None, _HIGH))
    letters = len(data) - len(data.translate(None, string.ascii_letters.encode()))
    strange = max(4 * (len(data) - len(_SEQUENCE.sub(b"", data))), 5 * len(_MISPLACED.findall(data)))
    return high <= letters and strange <= high


def _known(name: str) -> str:
    """Return an encoding that a file declares in ASCII, UTF-8 in place of others."""
    with suppress(LookupError, OSError):
        if codecs.lookup(name).name in _DECLARABLE:
            return name
    return "utf-8"


def _decode(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        where = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        raise DocumentError(
            f"The text is not {encoding.upper()}{where}. Accepted are UTF-8, UTF-16 with a byte order mark, and "
            "Windows-1252 of western languages."
        ) from error
    if "\x00" in text:
        raise DocumentError(
            "The file is not text: it has zero bytes. Accepted are UTF-8, Windows-1252, and UTF-16 with a "
            "byte order mark."
        )
    return text


def parse_xml(data: bytes, name: str) -> Element:
    """Return the root of an XML file of an archive. `name` is for messages. Raises DocumentError."""
    text = _without_entities(decode_text(data, declared=True), name)
    try:
        return etree.fromstring(text.encode(), _xml_parser())
    except etree.XMLSyntaxError as error:
        place = "line {}, column {}".format(*error.position)
        raise DocumentError(f"The part '{name[:200]}' is no well-formed XML at {place}.") from error


def parse_page(data: bytes, name: str) -> Element:
    """Return the root of a page of HTML or XHTML, however broken. Raises DocumentError: entities, no element."""
    return parse_page_text(decode_text(data, declared=True), name)


def parse_page_text(text: str, name: str) -> Element:
    """Return the root of a page, as `parse_page`."""
    strict = bool(_DECLARATION.match(text)) or "http://www.w3.org/1999/xhtml" in text[:4096]
    text = _without_entities(text, name)
    if text.count("<") > MAX_TAGS:
        raise DocumentError(f"The page '{name[:200]}' has more than {MAX_TAGS} tags, which is the limit.")
    if strict:
        # HTML's rules for an element without a content, such as <title/>, differ.
        try:
            named = _REFERENCE.sub(lambda found: found[0] if found[1] in _XML_OWN else html5.get(found[1], ""), text)
            return etree.fromstring(named.encode(), _xml_parser())
        except etree.XMLSyntaxError:
            pass
    if not text.strip():
        return html.Element("html")
    try:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise DocumentError(f"The page '{name[:200]}' cannot be read as HTML.") from error
    return html.Element("html") if root is None else root


def _xml_parser() -> Any:
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


def _without_entities(text: str, name: str) -> str:
    """Return `text` without its declarations. Raises DocumentError where it declares entities."""
    text = _FORBIDDEN.sub("", _DECLARATION.sub("", text, count=1))
    if "<!ENTITY" in text[:65_536].upper():
        raise DocumentError(f"The part '{name[:200]}' declares entities, which are not accepted.")
    if _TOO_MANY_ATTRIBUTES.search(text):
        raise DocumentError(f"A tag of '{name[:200]}' has more than {MAX_ATTRIBUTES} attributes, which is the limit.")
    begins = _DOCTYPE_BEGINS.search(text, 0, 65_536)
    doctype = _DOCTYPE.match(text, begins.start(), 65_536) if begins else None
    return text[: doctype.start()] + text[doctype.end() :] if doctype else text


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace, in lower case; "" for a comment or the like."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def local_attribute(element: Element, name: str) -> str:
    """Return the value of an attribute, of whichever namespace; "" if absent."""
    for key, value in element.attrib.items():
        if key == name or key.endswith((f"}}{name}", f":{name}")):
            return str(value)
    return ""
