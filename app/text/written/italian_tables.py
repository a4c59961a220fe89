"""Words of Italian for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import (
    Noun,
    Words,
    parse_abbreviations,
    parse_money,
    parse_names,
    parse_nouns,
    parse_pairs,
    read_tables,
)

_TABLES: Final = read_tables("italian")
ITALIAN: Final = Words(
    number="it",
    comma="virgola",
    point="punto",
    minus="meno",
    to="a",
    percent="per cento",
    of="di",
    link="",
    first="primo",
    months=parse_names("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    hour=Noun("ora", "ore", "f"),
    hour_said=False,
    minutes="e",
    money_link="e",
    money=parse_money(_TABLES["money"]),
    units=parse_nouns(_TABLES["units"]),
    per="per",
    abbreviations=parse_abbreviations(_TABLES["abbreviations"]),
    signs=parse_pairs(
        "+=più; ==uguale a; ×=per; ÷=diviso; <=minore di; >=maggiore di; ≈=circa; ±=più o meno; "
        "≤=minore o uguale a; ≥=maggiore o uguale a; ·=per; −=meno; -=meno"
    ),
    centuries="secolo secoli",
    ordinal_centuries=True,
    regnal=99,
    address=parse_pairs(
        "_=trattino basso; .=punto; /=barra; @=chiocciola; -=trattino; :=due punti; "
        "?=punto interrogativo; ==uguale; &=e; #=cancelletto; ~=tilde; +=più"
    ),
    numbered="capitolo tomo parte atto sezione articolo fase tipo livello titolo volume libro scena cap. vol. art.",
    scales=parse_nouns(_TABLES["scales"]),
    parts={2: ("mezzo", "mezzi")},
    dated="il al dal del",
)
