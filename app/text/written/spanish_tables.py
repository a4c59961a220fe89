"""Words of Spanish for units, money, months, abbreviations and signs."""

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

_TABLES: Final = read_tables("spanish")
SPANISH: Final = Words(
    number="es",
    comma="coma",
    point="punto",
    minus="menos",
    to="a",
    percent="por ciento",
    of="de",
    link="de",
    first="uno",
    months=parse_names("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    hour=Noun("hora", "horas", "f"),
    hour_said=False,
    minutes="",
    money_link="con",
    money=parse_money(_TABLES["money"]),
    units=parse_nouns(_TABLES["units"]),
    per="por",
    abbreviations=parse_abbreviations(_TABLES["abbreviations"]),
    signs=parse_pairs(
        "+=más; ==igual a; ×=por; ÷=dividido entre; <=menor que; >=mayor que; ≈=aproximadamente; ±=más menos; "
        "≤=menor o igual que; ≥=mayor o igual que; ·=por; −=menos; -=menos"
    ),
    centuries="siglo siglos",
    ordinal_centuries=False,
    regnal=10,
    address=parse_pairs(
        "_=guion bajo; .=punto; /=barra; @=arroba; -=guion; :=dos puntos; "
        "?=interrogación; ==igual; &=y; #=almohadilla; ~=virgulilla; +=más"
    ),
    numbered="capítulo tomo parte acto sección artículo fase tipo nivel título volumen libro escena cap. vol. art.",
    scales=parse_nouns(_TABLES["scales"]),
    parts={2: ("medio", "medios"), 3: ("tercio", "tercios")},
    dated="el al del día",
)
