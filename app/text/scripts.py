"""Scripts of a text, and the language if the script alone decides it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import Final

# Unicode blocks of letters: first and last code point, ISO 15924 script.
_BLOCKS: Final = (
    (0x0041, 0x024F, "Latn"), (0x0250, 0x02AF, "Latn"), (0x0370, 0x03FF, "Grek"), (0x0400, 0x052F, "Cyrl"),
    (0x0531, 0x058F, "Armn"), (0x0590, 0x05FF, "Hebr"), (0x0600, 0x06FF, "Arab"), (0x0700, 0x074F, "Syrc"),
    (0x0750, 0x077F, "Arab"), (0x0780, 0x07BF, "Thaa"), (0x07C0, 0x07FF, "Nkoo"), (0x08A0, 0x08FF, "Arab"),
    (0x0900, 0x0963, "Deva"), (0x0966, 0x097F, "Deva"), (0x0980, 0x09FF, "Beng"), (0x0A00, 0x0A7F, "Guru"),
    (0x0A80, 0x0AFF, "Gujr"), (0x0B00, 0x0B7F, "Orya"), (0x0B80, 0x0BFF, "Taml"), (0x0C00, 0x0C7F, "Telu"),
    (0x0C80, 0x0CFF, "Knda"), (0x0D00, 0x0D7F, "Mlym"), (0x0D80, 0x0DFF, "Sinh"), (0x0E00, 0x0E7F, "Thai"),
    (0x0E80, 0x0EFF, "Laoo"), (0x0F00, 0x0FFF, "Tibt"), (0x1000, 0x109F, "Mymr"), (0x10A0, 0x10FF, "Geor"),
    (0x1100, 0x11FF, "Hang"), (0x1200, 0x139F, "Ethi"), (0x1780, 0x17FF, "Khmr"), (0x1C50, 0x1C7F, "Olck"),
    (0x1C80, 0x1C8F, "Cyrl"), (0x1C90, 0x1CBF, "Geor"), (0x1E00, 0x1EFF, "Latn"), (0x1F00, 0x1FFF, "Grek"),
    (0x2C60, 0x2C7F, "Latn"), (0x2D00, 0x2D2F, "Geor"), (0x2D30, 0x2D7F, "Tfng"), (0x2D80, 0x2DDF, "Ethi"),
    (0x3040, 0x30FF, "Kana"), (0x3130, 0x318F, "Hang"), (0x31F0, 0x31FF, "Kana"), (0x3400, 0x4DBF, "Hani"),
    (0x4E00, 0x9FFF, "Hani"), (0xA640, 0xA69F, "Cyrl"), (0xA720, 0xA7FF, "Latn"), (0xAA60, 0xAA7F, "Mymr"),
    (0xAC00, 0xD7FF, "Hang"), (0xF900, 0xFAFF, "Hani"), (0xFB00, 0xFB06, "Latn"), (0xFB13, 0xFB17, "Armn"),
    (0xFB1D, 0xFB4F, "Hebr"), (0xFB50, 0xFDFF, "Arab"), (0xFE70, 0xFEFE, "Arab"), (0xFF21, 0xFF5A, "Latn"),
    (0xFF66, 0xFF9F, "Kana"), (0x20000, 0x3134F, "Hani"),
)  # fmt: skip
_STARTS: Final = tuple(first for first, _, _ in _BLOCKS)

# Latin letters that a character stands for, about: it writes a syllable or a word.
_WEIGHTS: Final = {"Hani": 3, "Kana": 2, "Hang": 2, "Ethi": 2}

_ONE_LANGUAGE: Final = {
    "Kana": "jpn_Jpan", "Hang": "kor_Hang", "Grek": "ell_Grek", "Armn": "hye_Armn", "Guru": "pan_Guru",
    "Gujr": "guj_Gujr", "Orya": "ory_Orya", "Taml": "tam_Taml", "Telu": "tel_Telu", "Knda": "kan_Knda",
    "Mlym": "mal_Mlym", "Sinh": "sin_Sinh", "Thai": "tha_Thai", "Laoo": "lao_Laoo", "Tibt": "bod_Tibt",
    "Mymr": "mya_Mymr", "Geor": "kat_Geor", "Ethi": "amh_Ethi", "Khmr": "khm_Khmr", "Olck": "sat_Beng",
    "Tfng": "tzm_Tfng", "Hebr": "heb_Hebr", "Beng": "ben_Beng",
}  # fmt: skip
# Letters or words of the other languages of a script. One is enough.
_SPECIFIC: Final = (
    ("Hebr", "ydd_Hebr", re.compile(r"[\u05f0-\u05f2]|\b(?:איז|דער|און|פון|דאס|נישט)\b")),
    ("Beng", "asm_Beng", re.compile("[ৰৱ]")),
    ("Mymr", "shn_Mymr", re.compile("[ၵၶၷၸၹၺၻၼၽၾၿႀႁႂႃႄႅႆ]")),
    ("Ethi", "tir_Ethi", re.compile("[ኣቐ-ቝ]|እዩ|እዮም")),
    ("Tibt", "dzo_Tibt", re.compile("ཨིན|འདི་ནང|ཚུ་")),
    ("Arab", "snd_Arab", re.compile("[ڄڃڻٿڀڳڌڍٺڏڙ]")),
    ("Arab", "ckb_Arab", re.compile("[ڵڕ]|ۆ.*ە|ە.*ۆ", re.DOTALL)),
)

# Frequent characters that only one way of writing has.
_SIMPLIFIED: Final = frozenset(
    "们个这来时说为对发经过还么开关见现电话长书买卖东车马鸟鱼龙门问间闻让认识语请谢谁读课该觉师写讲样业产"
    "国学会医华单双变叶听号员响园图团场声处备复头奖妈孙实宝应张录总惊愿战报护担择换据数断无旧显术权条极构标"
    "树桥检欢汉汤没济热爱牵献环疗盘离种积称笔简类红级纪纯纸线练组细终结给绝统继绩续维网罗义习老职联胜脑脸节"
    "苏药虽补装规视览观计订训议设许论证评词译试诗诚详误质贝负财责败货费资赛赵赶跃踪轮软轻较输边达迁运进远连"
    "选递邮邻钟钱铁银错锦镇闭闲闹队阳阴阶际陆陈险随难雾静韩页项顺须顾顿预领频题颜风飞饭饮馆驾验鲜麦黄齐"
)
_TRADITIONAL: Final = frozenset(
    "們個這來時說為對發經過還麼開關見現電話長書買賣東車馬鳥魚龍門問間聞讓認識語請謝誰讀課該覺師寫講樣業產"
    "國學會醫華單雙變葉聽號員響園圖團場聲處備復頭獎媽孫實寶應張錄總驚願戰報護擔擇換據數斷無舊顯術權條極構標"
    "樹橋檢歡漢湯濟熱愛牽獻環療盤離種積稱筆簡類紅級紀純紙線練組細終結給絕統繼績續維網羅義習職聯勝腦臉節"
    "蘇藥雖補裝規視覽觀計訂訓議設許論證評詞譯試詩誠詳誤質貝負財責敗貨費資賽趙趕躍蹤輪軟輕較輸邊達遷運進遠連"
    "選遞郵鄰鐘錢鐵銀錯錦鎮閉閒鬧隊陽陰階際陸陳險隨難霧靜韓頁項順須顧頓預領頻題顏風飛飯飲館駕驗鮮麥黃齊氣點後裡"
)
_BOTH: Final = _SIMPLIFIED & _TRADITIONAL
_JAPANESE: Final = frozenset("気駅働込円図売広戻沢浜験対県様関団鉄楽薬栄悪帰検圏畑峠枠辻桜黒歩毎恵渋斉剣")
_CANTONESE: Final = frozenset("嘅咗喺嚟冇佢啲咁唔嗰哋乜嘢睇嘥攞")


def script_of(character: str) -> str:
    """Return the ISO 15924 script whose block the character is in (Hani for Chinese, Kana for both kana), or ""."""
    block = bisect_right(_STARTS, ord(character)) - 1
    return _BLOCKS[block][2] if block >= 0 and ord(character) <= _BLOCKS[block][1] else ""


def count_scripts(text: str) -> Counter[str]:
    """Return the number of letters in each script. A Chinese character counts as three."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if not (character.isalpha() or "\u0900" <= character <= "\u109f"):  # vowel signs are letters here
            continue
        script = script_of(character)
        if script:
            counts[script] += times * _WEIGHTS.get(script, 1)
    return counts


def language_by_script(text: str, counts: Counter[str]) -> tuple[str, float] | None:
    """Return the language that the main script decides and its share of the letters, or None.

    The share is in [0, 1]. Latin, Cyrillic, Arabic and Devanagari decide nothing by themselves.
    """
    total = counts.total()
    if not total:
        return None
    script, amount = counts.most_common(1)[0]
    if counts["Hani"] or counts["Kana"]:
        east = counts["Hani"] + counts["Kana"]
        if east >= amount and east > counts["Hang"]:
            return _east_asian(text, counts), east / total
    for needed, language, pattern in _SPECIFIC:
        if needed == script and pattern.search(text):
            return language, amount / total
    language = _ONE_LANGUAGE.get(script, "")
    return (language, amount / total) if language else None


def _east_asian(text: str, counts: Counter[str]) -> str:
    # Chinese text may hold a stray kana (の on a sign). Japanese text holds many.
    if counts["Kana"] * 10 > counts["Hani"]:
        return "jpn_Jpan"
    characters = Counter(text)
    if any(character in _CANTONESE for character in characters):
        return "yue_Hant"

    def total(of: frozenset[str]) -> int:
        return sum(times for character, times in characters.items() if character in of)

    simplified, traditional, japanese = total(_SIMPLIFIED - _BOTH), total(_TRADITIONAL - _BOTH), total(_JAPANESE)
    if japanese > simplified and japanese > traditional:
        return "jpn_Jpan"
    return "zho_Hant" if traditional > simplified else "zho_Hans"
