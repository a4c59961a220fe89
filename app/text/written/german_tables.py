"""Words of German for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Money, Noun, Words, parse_names, parse_nouns, parse_pairs, read_tables

# Short forms that have another meaning with a capital letter.
_SMALL: Final = frozenset(("max.", "min.", "ca", "etc", "lat.", "eig."))


def _with_capitals(table: str) -> dict[str, str]:
    """Parse pairs, and add those that begin a sentence: "Sog."."""
    pairs = parse_pairs(table)
    small = [key for key in pairs if key[0].islower() and len(key) > 2 and key[1:].islower() and key not in _SMALL]
    return {**{key[0].upper() + key[1:]: pairs[key][0].upper() + pairs[key][1:] for key in small}, **pairs}


_TABLES: Final = read_tables("german")
GERMAN: Final = Words(
    number="de",
    comma="Komma",
    point="Punkt",
    minus="minus",
    to="bis",
    percent="Prozent",
    of="",
    link="",
    first="erster",
    months=parse_names("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
    hour=Noun("Uhr", "Uhr"),
    hour_said=True,
    minutes="",
    money_link="",
    money={
        "€": Money(Noun("Euro", "Euro"), "Cent"),
        "EUR": Money(Noun("Euro", "Euro"), "Cent"),
        "$": Money(Noun("Dollar", "Dollar"), "Cent"),
        "US$": Money(Noun("Dollar", "Dollar"), "Cent"),
        "USD": Money(Noun("Dollar", "Dollar"), "Cent"),
        "£": Money(Noun("Pfund", "Pfund"), "Pence"),
        "GBP": Money(Noun("Pfund", "Pfund"), "Pence"),
        "CHF": Money(Noun("Schweizer Franken", "Schweizer Franken"), "Rappen"),
        "¥": Money(Noun("Yen", "Yen")),
        "₽": Money(Noun("Rubel", "Rubel")),
        "₹": Money(Noun("Rupie", "Rupien", "f")),
        "PLN": Money(Noun("Złoty", "Złoty")),
        "JPY": Money(Noun("Yen", "Yen")),
        "SEK": Money(Noun("schwedische Krone", "schwedische Kronen", "f")),
        **{name: Money(Noun("Tausend Euro", "Tausend Euro")) for name in ("T€", "TEUR", "k€")},
    },
    units=parse_nouns(_TABLES["units"]),
    per="pro",
    abbreviations=_with_capitals(_TABLES["abbreviations"]),
    signs=parse_pairs(
        "+=plus; ==gleich; ×=mal; ÷=geteilt durch; <=kleiner als; >=größer als; ≈=ungefähr; ±=plus minus; "
        "≤=kleiner oder gleich; ≥=größer oder gleich; ·=mal; −=minus; -=minus"
    ),
    centuries="Jahrhundert",
    ordinal_centuries=True,
    regnal=0,
    address=parse_pairs(
        "_=Unterstrich; .=Punkt; /=Schrägstrich; @=ät; -=Bindestrich; :=Doppelpunkt; ?=Fragezeichen; ==gleich; "
        "&=und; #=Raute; ~=Tilde; +=plus; \\=Backslash"
    ),
    numbered="Kapitel Band Teil Akt Artikel Stufe Phase Abschnitt Klasse Typ Szene Buch Anhang Satz Kap. Bd. Art.",
    scales=parse_nouns(_TABLES["scales"]),
    parts={
        2: ("halb", "halbe"),
        3: ("Drittel", "Drittel"),
        7: ("Siebtel", "Siebtel"),
        8: ("Achtel", "Achtel"),
        16: ("Sechzehntel", "Sechzehntel"),
    },
)
