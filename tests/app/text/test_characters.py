"""Characters of languages that the tables of readings do not cover, and the way back to the text as it was written."""

from __future__ import annotations

import pytest

from app.text.characters import normalize, original_span


@pytest.mark.parametrize(
    ("language", "text", "normal"),
    [
        ("ja", "気温は25℃、㌔", "気温は25度、キロ"), ("zh", "今天25 ℉，90°", "今天25华氏度，90度"),
        ("zh", "中国¹。", "中国。"), ("zh", "你\u200b好", "你 好"), ("th", "ไทย\u200bไทย", "ไทย ไทย"),
        ("ja", "2\u202f500円", "2500円"), ("hi", "25℃ है, शब्द¹, 10⁸", "25 डिग्री सेल्सियस  है, शब्द, 10 की घात 8"),
        ("fa", "می\u200cخواهم\u200e", "می\u200cخواهم"), ("hi", "क्\u200dष ह\u00adै", "क्\u200dष है"),
        ("en", "👩\u200d💻", "👩\u200d💻"), ("en", "🏴\U000e0067\U000e0062 a\U000e0067", "🏴\U000e0067\U000e0062 a"),
        ("zh", "5㎏大米, 10⁸米, 10⁻³", "5公斤大米, 10的8次方米, 10的负3次方"), ("zh", "词²", "词²"),
        ("ja", "5㎏, 3 ㎡, x³", "5キログラム, 3平方メートル, xの3乗"), ("hi", "5㎏ है", "5 किलोग्राम है"),
        ("nl", "ver-\nder en voor-\nen", "verder en voor-\nen"),
    ],
)  # fmt: skip
def test_characters_keep_what_a_script_needs(language: str, text: str, normal: str) -> None:
    assert normalize(text, language)[0] == normal


def test_places_lead_back_through_all_steps() -> None:
    text = "\ufeffIt\u00ad's 25 ℃.\u200b Chap\u00adter 01,\nslept.⁴ Then strik-\ning ==so== 2\u202f500."
    normal, steps = normalize(text, "en-us")
    assert normal == "It's 25 °C. Chapter 1,\nslept. Then striking   so   2,500."
    for said, written in (("It's", "It\u00ad's"), ("°C", "℃"), ("Chapter", "Chap\u00adter"), ("1", "01"),
                          ("striking", "strik-\ning"), ("so", "so"), ("2,500", "2\u202f500")):  # fmt: skip
        start = normal.index(said)
        first, last = original_span(steps, start, start + len(said))
        assert text[first:last] == written
        for places in steps:
            first = places.position(first)
        assert first == start
