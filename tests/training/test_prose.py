"""Sentences of a language in files of several kinds."""

from __future__ import annotations

import gzip
from pathlib import Path

from training.prose import sentences

PAGE = """<html><style>p { color: red }</style><p>La lluvia cay&oacute; toda la noche sobre los tejados.</p>
<p>Pulse <code>Ctrl</code> para la lista.</p><p>The rain fell on the roofs of the village all night.</p></html>"""
MANUAL = """.TH LS 1
.PP
\\fBls\\fP muestra los ficheros. La orden se usa a menudo en los
.I programas
de la instalaci\\('on. Nadie sabe por qu\u00e9 la puerta de la casa est\u00e1 abierta.
"""
QUOTATIONS = """El arte de la vida es el arte de evitar el dolor.
\t\t-- Thomas Jefferson
%
\u00bfY por qu\u00e9 no se lo dices a la chica de la tienda?
%
Versi\u00f3n 2 de la API: MAX_SIZE de los datos.
"""
GLOSS = '00001740 29 v 00 | draw air into, and expel out of, the lungs; "I can breathe better when the air is clean"\n'


def test_plain_sentences_of_the_language_are_taken(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    with gzip.open(tmp_path / "ls.1.gz", "wt", encoding="utf-8") as file:
        file.write(MANUAL)
    (tmp_path / "arte").write_text(QUOTATIONS, encoding="latin-1")
    assert sentences(tmp_path, "es") == [
        "El arte de la vida es el arte de evitar el dolor.",
        "La lluvia cayó toda la noche sobre los tejados.",
        "Nadie sabe por qué la puerta de la casa está abierta.",
        "¿Y por qué no se lo dices a la chica de la tienda?",
    ]


def test_examples_of_wordnet_become_sentences(tmp_path: Path) -> None:
    (tmp_path / "wordnet").mkdir()
    (tmp_path / "wordnet/data.verb").write_text(GLOSS, encoding="utf-8")
    assert sentences(tmp_path, "en") == ["I can breathe better when the air is clean."]
