"""Identification of languages, without a network."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.translation.text.codes import FLORES
from app.translation.text.identify import identify, warm

SENTENCES = [
    ("eng_Latn", "The weather is nice today and we go for a walk."),
    ("fra_Latn", "Il fait beau aujourd'hui et nous allons nous promener."),
    ("deu_Latn", "Könnten Sie mir bitte sagen, wo der Bahnhof ist?"),
    ("spa_Latn", "Hoy hace buen tiempo y vamos a dar un paseo."),
    ("ita_Latn", "Oggi fa bel tempo e andiamo a fare una passeggiata."),
    ("por_Latn", "O tempo está bom hoje e vamos dar um passeio."),
    ("nld_Latn", "Het weer is vandaag mooi en we gaan wandelen."),
    ("swe_Latn", "Vädret är fint idag och vi går ut."),
    ("pol_Latn", "Pogoda jest dziś ładna i idziemy na spacer."),
    ("tur_Latn", "Bugün hava güzel ve yürüyüşe çıkıyoruz."),
    ("vie_Latn", "Hôm nay thời tiết đẹp."),
    ("swh_Latn", "Hali ya hewa ni nzuri leo."),
    ("yor_Latn", "Ojú ọjọ́ dára lónìí."),
    ("als_Latn", "Moti sot është i bukur."),
    ("rus_Cyrl", "Сегодня хорошая погода, и мы идём гулять."),
    ("ukr_Cyrl", "Сьогодні гарна погода, і ми йдемо гуляти."),
    ("khk_Cyrl", "Өнөөдөр цаг агаар сайхан байна."),
    ("arb_Arab", "الطقس جميل اليوم وسنذهب في نزهة."),
    ("pes_Arab", "هوا امروز خوب است و ما به پیاده‌روی می‌رویم."),
    ("urd_Arab", "آج موسم اچھا ہے۔"),
    ("ckb_Arab", "ئەمڕۆ کەش و هەوا خۆشە."),
    ("snd_Arab", "اڄ موسم سٺو آهي."),
    ("hin_Deva", "आज मौसम अच्छा है और हम टहलने जा रहे हैं।"),
    ("mar_Deva", "आज हवामान छान आहे आणि आपण फिरायला जाऊ."),
    ("heb_Hebr", "מזג האוויר יפה היום ואנחנו יוצאים לטייל."),
    ("ydd_Hebr", "דער װעטער איז הײַנט שײן."),
    ("heb_Hebr", "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ."),
    ("ydd_Hebr", "איך בין נישט אַ גרויסער מענטש."),
    ("ell_Grek", "Ο καιρός είναι καλός σήμερα."),
    ("hye_Armn", "Այսօր եղանակը լավ է։"),
    ("kat_Geor", "დღეს კარგი ამინდია."),
    ("amh_Ethi", "ዛሬ አየሩ ጥሩ ነው።"),
    ("tir_Ethi", "ሎሚ ኩነታት ኣየር ጽቡቕ እዩ።"),
    ("tha_Thai", "วันนี้อากาศดี"),
    ("lao_Laoo", "ມື້ນີ້ອາກາດດີ"),
    ("khm_Khmr", "ថ្ងៃនេះអាកាសធាតុល្អ។"),
    ("mya_Mymr", "ဒီနေ့ ရာသီဥတု ကောင်းတယ်။"),
    ("bod_Tibt", "དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག"),
    ("tam_Taml", "இன்று வானிலை நன்றாக உள்ளது."),
    ("ben_Beng", "আজ আবহাওয়া ভালো।"),
    ("asm_Beng", "আজি বতৰ ভাল।"),
    ("pan_Guru", "ਅੱਜ ਮੌਸਮ ਚੰਗਾ ਹੈ।"),
    ("kor_Hang", "오늘은 날씨가 좋습니다."),
    ("jpn_Jpan", "今日は天気がいいです。"),
    ("zho_Hans", "今天天气很好，我们去公园散步。"),
    ("zho_Hant", "今天天氣很好，我們去公園散步。"),
    ("yue_Hant", "今日天氣好好，我哋去公園行下。"),
]


@pytest.mark.parametrize(("language", "text"), SENTENCES)
def test_sentences(language: str, text: str) -> None:
    best = identify(text)[0]
    assert best.language == language
    assert best.confidence > 0.3


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("eng_Latn", "Hello"),
        ("spa_Latn", "Hola"),
        ("fra_Latn", "Bonjour"),
        ("rus_Cyrl", "Привет"),
        ("zho_Hans", "你好"),
    ],
)
def test_everyday_words(language: str, text: str) -> None:
    assert identify(text)[0].language == language


@pytest.mark.parametrize(
    "text", ["", " ", "123", "!!!", "😀", "3.14 + 2", "http://example.com/fr", "a@b.example", "\ud800", "\0"]
)
def test_what_is_no_language_is_not_believed(text: str) -> None:
    assert identify(text)[0].confidence == 0.0


@pytest.mark.parametrize("text", ["I", "ok", "xq zv", "Blorp"])
def test_a_word_or_two_prove_little(text: str) -> None:
    assert identify(text)[0].confidence < 0.5


def test_a_language_that_flores_lacks_is_not_certain() -> None:
    assert identify("Demat deoc'h, penaos emañ kont ganeoc'h hiziv an deiz ?")[0].confidence < 0.05  # Breton


def test_alternatives_come_best_first() -> None:
    guesses = identify("Kako si danas?", limit=4)
    assert len(guesses) == 4
    assert [guess.confidence for guess in guesses] == sorted((guess.confidence for guess in guesses), reverse=True)
    assert len({guess.language for guess in guesses}) == 4
    assert sum(guess.confidence for guess in guesses) <= 1.0 + 1e-6
    assert {guess.language for guess in guesses} & {"hrv_Latn", "bos_Latn", "slv_Latn"}
    assert [guess.language for guess in identify("東京", limit=3)] == ["zho_Hant", "jpn_Jpan"]


def test_a_foreign_name_does_not_change_the_language() -> None:
    assert identify("The Japanese word 東京 means the eastern capital.")[0].language == "eng_Latn"
    assert identify("iPhone と MacBook を買いました。")[0].language == "jpn_Jpan"
    assert identify("这家店的美の茶叶饮料很好喝，我们每天都来。")[0].language == "zho_Hans"
    assert identify("Η εταιρεία Microsoft ανακοίνωσε νέα προϊόντα.")[0].language == "ell_Grek"


def test_shouting_is_understood() -> None:
    assert identify("WO IST DER NÄCHSTE BAHNHOF, BITTE?")[0].language == "deu_Latn"


@given(st.text(max_size=60), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_any_text_has_a_guess(text: str, limit: int) -> None:
    guesses = identify(text, limit)
    assert 1 <= len(guesses) <= limit
    assert all(guess.language in FLORES and 0.0 <= guess.confidence <= 1.0 for guess in guesses)


def test_a_book_is_sampled() -> None:
    page = "The weather is nice today and we go for a walk. " * 42  # more than the sample
    assert identify(page + "x" * 10_000_000) == identify(page)


def test_threads_agree() -> None:
    warm()
    texts = [text for _, text in SENTENCES] * 4
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(identify, texts)) == [identify(text) for text in texts]


def test_it_starts_without_a_network_library() -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "socket.getaddrinfo = refuse\n"
        "from app.translation.text.identify import identify\n"
        "assert identify('Il fait beau aujourd’hui.')[0].language == 'fra_Latn'\n"
        "print([name for name in ('requests', 'urllib3', 'httpx', 'huggingface_hub') if name in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
