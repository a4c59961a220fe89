"""Words of French for units, money, months, abbreviations and signs."""

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

_TABLES: Final = read_tables("french")
FRENCH: Final = Words(
    number="fr",
    comma="virgule",
    point="point",
    minus="moins",
    to="à",
    percent="pour cent",
    of="de",
    link="",
    first="premier",
    months=parse_names("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    hour=Noun("heure", "heures", "f"),
    hour_said=True,
    minutes="",
    money_link="",
    money=parse_money(_TABLES["money"]),
    units=parse_nouns(_TABLES["units"]),
    per="par",
    abbreviations=parse_abbreviations(_TABLES["abbreviations"]),
    signs=parse_pairs(
        "+=plus; ==égale; ×=fois; ÷=divisé par; <=inférieur à; >=supérieur à; ≈=environ; ±=plus ou moins; "
        "≤=inférieur ou égal à; ≥=supérieur ou égal à; ·=fois; −=moins; -=moins"
    ),
    centuries="siècle siècles",
    ordinal_centuries=True,
    regnal=1,
    address=parse_pairs(
        "_=tiret bas; .=point; /=barre oblique; @=arobase; -=tiret; :=deux-points; "
        "?=point d'interrogation; ==égale; &=et; #=dièse; ~=tilde; +=plus"
    ),
    tens=True,
    numbered="chapitre tome partie acte section article phase type niveau titre volume livre scène chap. vol. art.",
    scales=parse_nouns(_TABLES["scales"]),
    parts={2: ("demi", "demis"), 3: ("tiers", "tiers"), 4: ("quart", "quarts")},
    dated="le au du",
)
