"""LibreTranslate's surface, driven by its own client and by plain HTTP, over a real socket."""

import urllib.error
from typing import Any

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI


@pytest.fixture
def client(translating: Any) -> LibreTranslateAPI:
    return LibreTranslateAPI(translating.url, api_key="not looked at")


def post(server: Any, **body: object) -> httpx.Response:
    return httpx.post(server.url + "/translate", json={"source": "en", "target": "fr"} | body, timeout=60)


_FORM = "multipart/form-data; boundary=x"
_FIELD = b'--x\r\nContent-Disposition: form-data; name="q-"\r\n\r\nTEXT\r\n--x--'


def test_the_client_translates(client: LibreTranslateAPI, translating: Any) -> None:
    assert client.translate("Hello there. How are you?", "en", "es") == "HELLO THERE. HOW ARE YOU?"
    assert client.translate("Où est la gare, s'il vous plaît ?", "auto", "en") == "OÙ EST LA GARE, S'IL VOUS PLAÎT ?"
    assert client.translate("你好。", "zh", "en") == "你好。"
    request = translating.shout.batches[1][0]
    assert (request.source, request.target) == ("fra_Latn", "eng_Latn")


def test_the_client_detects(client: LibreTranslateAPI) -> None:
    best, *others = client.detect("Guten Morgen, wie geht es Ihnen heute?")
    assert best["language"] == "de"
    assert 50 < best["confidence"] <= 100
    assert all(other["confidence"] <= best["confidence"] for other in others)
    assert client.detect("你好，世界很大，很高兴见到你。")[0]["language"] == "zh-Hans"


def test_the_client_lists_languages_that_it_can_use(client: LibreTranslateAPI) -> None:
    listed = client.languages()
    names = {entry["code"]: entry["name"] for entry in listed}
    assert names["en"] == "English"
    assert {"zh-Hans", "zh-Hant", "fr", "ar"} <= set(names)
    targets = {entry["code"]: set(entry["targets"]) for entry in listed}
    assert targets.pop("ko") == {"ko", "en"}
    assert all(each == set(names) for each in targets.values())
    for code in names:
        assert client.translate("Hello there.", "en", code) in ("HELLO THERE.", "Hello there.")


@pytest.mark.parametrize("old", ["zt", "pb"])
def test_its_old_codes_are_understood(translating: Any, old: str) -> None:
    response = post(translating, q="Hi.", target=old)
    if old == "zt":
        assert response.json() == {"translatedText": "HI."}
        assert translating.shout.batches[0][0].target == "zho_Hant"
    else:
        # Portuguese, which this model does not know.
        assert "Portuguese" in response.json()["error"]


def test_lists_come_back_as_lists(translating: Any) -> None:
    body = post(translating, q=["Hello there.", "Bonjour, mon ami."], source="auto", target="es", alternatives=1).json()
    assert body["translatedText"] == ["HELLO THERE.", "BONJOUR, MON AMI."]
    assert body["alternatives"] == [["HELLO THERE 1."], ["BONJOUR, MON AMI 1."]]
    assert [each["language"] for each in body["detectedLanguage"]] == ["en", "fr"]
    assert post(translating, q=["Hi."]).json() == {"translatedText": ["HI."]}


def test_a_string_comes_back_as_a_string(translating: Any) -> None:
    body = post(translating, q="Hello there.", source="auto", alternatives="2").json()
    assert body["translatedText"] == "HELLO THERE."
    assert body["alternatives"] == ["HELLO THERE 1.", "HELLO THERE 2."]
    assert body["detectedLanguage"]["language"] == "en"
    assert isinstance(body["detectedLanguage"]["confidence"], float)


def test_what_is_unsure_is_answered_all_the_same(translating: Any) -> None:
    body = post(translating, q="Kaffee", source="auto").json()
    assert body["translatedText"] == "KAFFEE"
    assert body["detectedLanguage"]["confidence"] < 20
    assert post(translating, q="42", source="auto").json() == {
        "translatedText": "42",
        "detectedLanguage": {"confidence": 0.0, "language": "en"},
    }


def test_html_survives(translating: Any) -> None:
    body = post(translating, q='<p class="green">Hello <b>there</b>!</p>', format="html").json()
    assert body == {"translatedText": '<p class="green">HELLO <b>THERE</b>!</p>'}


def test_forms_and_queries_are_read(translating: Any) -> None:
    url = translating.url + "/translate"
    fields = {"q": "Hello there.", "source": "en", "target": "fr", "format": "text", "api_key": "x"}
    assert httpx.post(url, data=fields).json() == {"translatedText": "HELLO THERE."}
    multipart = {name: (None, value) for name, value in fields.items()}
    assert httpx.post(url, files=multipart).json() == {"translatedText": "HELLO THERE."}
    assert httpx.post(url, params=fields).json() == {"translatedText": "HELLO THERE."}
    assert httpx.post(url, data=fields | {"q": ["One.", "Two."]}).json() == {"translatedText": ["ONE.", "TWO."]}
    # JSON without saying so, as some clients send it.
    assert httpx.post(url, content=b'{"q": "Hi.", "source": "en", "target": "fr"}').json()["translatedText"] == "HI."


def test_the_settings_its_web_clients_ask_for(translating: Any) -> None:
    body = httpx.get(translating.url + "/frontend/settings").json()
    assert body["keyRequired"] is False
    assert body["charLimit"] == 400_000
    assert {"source", "target"} == set(body["language"])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "missing q"),
        *(({"q": text}, "missing q") for text in ("", [], ["", ""])),
        *(({"q": text}, "string") for text in (5, ["Hi.", None])),
        ({"q": "Hi.", "target": ""}, "missing target"),
        ({"q": "Hi.", "target": 5}, "target must be a string"),
        ({"q": "Hi.", "format": "markdown"}, "not supported"),
        *(({"q": "Hi.", "alternatives": number}, "from 0 to 7") for number in (8, "many")),
        ({"q": "a " * 250_000}, "400000"),
    ],
)
def test_errors_are_a_message(translating: Any, body: dict[str, object], says: str) -> None:
    response = post(translating, **body)
    assert response.status_code == 400
    assert set(response.json()) == {"error"}
    assert says in response.json()["error"]


def test_bad_forms_are_a_message(translating: Any) -> None:
    url = translating.url + "/translate"
    for content, kind in [
        (b"--x\r\nbroken", _FORM),
        (b"q=a", "multipart/form-data"),
        (_FIELD.replace(b"TEXT", b"\\"), f"{_FORM}; charset=undefined"),
        # Punycode takes time with the square of the text, in which nobody else is answered.
        (_FIELD.replace(b"TEXT", b"1" * 100_000), f"{_FORM}; charset=punycode"),
        (b"&".join([b"q=a"] * 20_000), "application/x-www-form-urlencoded"),
    ]:
        response = httpx.post(url, content=content, headers={"content-type": kind})
        assert response.status_code == 400
        assert response.elapsed.total_seconds() < 2
        assert isinstance(response.json()["error"], str)
    upload = httpx.post(url, files={"q": ("a.txt", b"text")}, data={"target": "fr"})
    assert upload.status_code == 400
    assert isinstance(upload.json()["error"], str)
    for path, method in (("/translate", "GET"), ("/languages", "POST"), ("/detect", "PUT")):
        response = httpx.request(method, translating.url + path)
        assert response.status_code == 405
        assert isinstance(response.json()["error"], str)


def test_without_an_installed_model_the_answer_is_how_to_install_it(server: Any) -> None:
    client = LibreTranslateAPI(server.url)
    for call in (lambda: client.translate("Hi.", "en", "fr"), client.languages):
        with pytest.raises(urllib.error.HTTPError) as caught:
            call()
        with caught.value as answer:
            assert answer.code == 503
            assert b'"error":"' in answer.read()
    assert "nightingale models pull absent-translator" in post(server, q="Hi.").json()["error"]
    # Detection needs no translation model.
    assert client.detect("Bonjour, comment allez-vous ?")[0]["language"] == "fr"
