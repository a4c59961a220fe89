"""Words of each language for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.french_tables import FRENCH
from app.text.written.german_tables import GERMAN
from app.text.written.italian_tables import ITALIAN
from app.text.written.portuguese_tables import PORTUGUESE
from app.text.written.spanish_tables import SPANISH

WORDS: Final = {"de": GERMAN, "es": SPANISH, "fr-fr": FRENCH, "it": ITALIAN, "pt-br": PORTUGUESE}
"""Language tag -> its words."""
