"""Words of Brazilian Portuguese for units, money, months, abbreviations and signs."""

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

_TABLES: Final = read_tables("portuguese")
PORTUGUESE: Final = Words(
    number="pt_BR",
    comma="vírgula",
    point="ponto",
    minus="menos",
    to="a",
    percent="por cento",
    of="de",
    link="de",
    first="primeiro",
    months=parse_names("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
    hour=Noun("hora", "horas", "f"),
    hour_said=False,
    minutes="e",
    money_link="e",
    money=parse_money(_TABLES["money"]),
    units=parse_nouns(_TABLES["units"]),
    per="por",
    abbreviations=parse_abbreviations(_TABLES["abbreviations"]),
    signs=parse_pairs(
        "+=mais; ==igual a; ×=vezes; ÷=dividido por; <=menor que; >=maior que; ≈=aproximadamente; ±=mais ou menos; "
        "≤=menor ou igual a; ≥=maior ou igual a; ·=vezes; −=menos; -=menos"
    ),
    centuries="século séculos",
    ordinal_centuries=False,
    regnal=10,
    address=parse_pairs(
        "_=sublinhado; .=ponto; /=barra; @=arroba; -=hífen; :=dois pontos; "
        "?=interrogação; ==igual; &=e; #=cerquilha; ~=til; +=mais"
    ),
    numbered="capítulo tomo parte ato seção artigo fase tipo nível título volume livro cena cap. vol. art.",
    scales=parse_nouns(_TABLES["scales"]),
    parts={2: ("meio", "meios"), 3: ("terço", "terços")},
    dated="em dia no do ao",
)
