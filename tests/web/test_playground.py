"""The playground in a browser: sound arrives and is played, words light up, errors show, offered code runs."""

from __future__ import annotations

import json
import re

import httpx
import numpy as np
import pytest
import soundfile

from tests import clients
from tests.web.pages import DONE, DROP, ERROR, READY, SILENT, error_of, run_offered_code, speak, until

TEXT = "The weather is fine today, and the train leaves in the morning. Every word is heard."


def test_sound_arrives_and_is_what_the_api_gives(open_page, house_server, recognize):
    page = open_page()
    speak(page, TEXT)
    samples = np.asarray(page.evaluate("playground.pieces.flatMap((piece) => [...piece])"), np.float32)
    expected = np.frombuffer(clients.speak(house_server, TEXT, response_format="pcm").content, "<i2")
    assert samples.size == expected.size
    np.testing.assert_array_equal(np.round(samples * 32768).astype(np.int16), expected)
    assert "train leaves in the morning" in recognize(samples, 24_000)
    # Times and stages are shown.
    assert re.fullmatch(r"[\d.]+ m?s", page.inner_text("#first-here"))
    assert re.fullmatch(r"[\d.]+ m?s", page.inner_text("#first-server"))
    stages = [row.inner_text().split("\t")[0] for row in page.locator("#stages tr").all()]
    assert stages == ["queue", "g2p", "voice", "bert", "text encoder", "predictor", "decoder", "audio encode"]
    id_ = page.inner_text("#request-id")
    known = httpx.get(f"{house_server}/dashboard/requests").json()["requests"]
    assert [entry["outcome"] for entry in known if entry["request_id"] == id_] == ["ok"]
    # A download is the sound.
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "nightingale.wav"
    with soundfile.SoundFile(waiting.value.path()) as file:
        assert (file.samplerate, file.format, file.subtype) == (24_000, "WAV", "PCM_16")
        np.testing.assert_array_equal(file.read(dtype="int16"), expected)
    # And it plays again.
    page.keyboard.press("Escape")
    until(page, SILENT)
    page.click("#play")
    until(page, "playground.position > 0.1")
    until(page, "playground.heardNow() > 0.05")
    assert page.evaluate("playground.samples") == expected.size


def test_sound_is_played_while_it_streams(open_page):
    page = open_page()
    speak(page, TEXT * 100, "playground.position > 0.3")
    # Far more is still to come: the server has not said that it is done.
    assert page.locator("#form").get_attribute("aria-busy") == "true"
    before = page.evaluate("playground.position")
    # The loudest of what left towards the loudspeaker in the last 85 ms.
    until(page, "playground.heardNow() > 0.05")
    until(page, f"playground.position > {before} + 0.5")
    assert page.inner_text("#length") != "0 s"
    page.keyboard.press("Escape")
    until(page, "playground.heardNow() === 0")
    assert page.locator("#form").get_attribute("aria-busy") == "false"
    assert page.is_hidden("#error")


def test_words_light_up_when_they_are_heard(open_page):
    page = open_page()
    words = re.findall(r"\w+", TEXT)
    # A slow machine may skip a frame in which a short word was lit, and a halted one many.
    for _ in range(10):
        speak(page, TEXT, "!document.querySelector('#stop').disabled")
        seen = words_lit(page)
        # The order is what they are spoken in.
        spoken = iter(words)
        assert all(word in spoken for word in seen), seen
        if len(seen) > 0.7 * len(words):
            break
    else:
        pytest.fail(f"of {words} only {seen} were lit")
    assert page.locator("#words .ahead").count() == 0
    assert " ".join(page.inner_text("#words").split()) == TEXT


def words_lit(page) -> list[str]:
    """Return the words that light up until the end."""
    seen: list[str] = []
    until(page, "document.querySelector('#words .lit') || document.querySelector('#stop').disabled")
    for _ in range(6_000):
        state = page.evaluate(
            """() => {
                const lit = [...document.querySelectorAll("#words .lit")];
                return {
                    lit: lit.map((span) => [span.textContent, Number(span.dataset.start)]),
                    at: playground.position,
                    playing: !document.querySelector("#stop").disabled,
                };
            }"""
        )
        assert len(state["lit"]) <= 1
        if state["lit"]:
            word, start = state["lit"][0]
            assert start <= state["at"] + 0.05
            if not seen or seen[-1] != word:
                seen.append(word)
        if not state["playing"]:
            return seen
        page.wait_for_timeout(15)
    pytest.fail("it never ended")


def test_pictures_grow_with_the_sound(open_page):
    page = open_page()
    painted = """(id) => {
        const canvas = document.getElementById(id);
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const ground = [...data.slice(0, 4)].join();
        let other = 0;
        for (let i = 0; i < data.length; i += 4) other += data.slice(i, i + 4).join() !== ground;
        return other / (data.length / 4);
    }"""
    # This test reads canvases; the page does not.
    page.expected.append("getImageData")
    until(page, READY)
    silent = [page.evaluate(painted, id_) for id_ in ("wave", "spectrum")]
    assert max(silent) < 0.03
    speak(page, TEXT)
    until(page, SILENT)
    assert page.evaluate(painted, "wave") > 0.1
    assert page.evaluate(painted, "spectrum") > 0.2


def test_translated_words_are_those_that_are_spoken(opened):
    page = opened()
    page.select_option("#translate", "fr-fr")
    assert page.input_value("#translator") == "phrasebook"
    speak(page, "Where is the train station? Good morning.")
    assert "Où est la gare" in page.inner_text("#words")
    assert page.locator("#words .source").first.inner_text() == "Where is the train station?"
    assert page.locator("#words .ahead, #words .heard, #words .lit").count() >= 4


def test_errors_show_with_their_request(opened):
    page = opened()
    for text, translate, says, code in (
        ("…", "", "nothing that can be read aloud", "nothing_to_speak"),
        ("a[pause:]b [pause:99999s]", "", "pause", "invalid_markup"),
        ("Colorless green ideas sleep furiously.", "fr-fr", "phrasebook does not know", "outside_coverage"),
    ):
        page.select_option("#translate", translate)
        speak(page, text, ERROR)
        assert says in error_of(page).lower()
        assert code not in error_of(page)
        page.click("#error summary")
        shown = page.inner_text("#error")
        assert code in shown
        assert page.inner_text("#request-id") in shown
        # And what follows works.
        page.select_option("#translate", "")
        speak(page, "Good night.", "document.querySelector('#error').hidden")
        until(page, DONE)


def test_a_connection_that_ends_is_an_error(opened):
    page = opened()
    page.route_web_socket("**/v1/audio/stream", lambda socket: socket.close(code=1012, reason="shutting down"))
    page.keyboard.press("Control+Enter")
    assert "shutting down" in error_of(page)
    page.route_web_socket("**/v1/audio/stream", lambda socket: socket.close())
    page.keyboard.press("Control+Enter")
    until(page, "document.querySelector('#error').innerText.includes('connection to the server was lost')")
    assert page.locator("#form").get_attribute("aria-busy") == "false"


AWKWARD = 'It\'s "quoted", \\back\\ and $HOME `id`.\nSecond line: naïve café 😀.'


def test_the_code_that_is_offered_runs(opened, program, tmp_path):
    page = opened()
    page.fill("#text", AWKWARD)
    page.check("#voice input[value=af_heart]")
    page.fill("#speed", "0.5")
    page.locator("#speed").dispatch_event("input")
    for code in run_offered_code(page, tmp_path, program).values():
        assert '"voice": "af_heart"' in code
        assert '"speed": 1.41' in code


def test_everything_is_reached_by_keyboard_and_has_a_name(opened):
    page = opened()
    reached = []
    page.keyboard.press("Tab")
    for _ in range(50):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
        page.keyboard.press("Tab")
    for id_ in ("text", "model", "voice", "lang", "speed", "translate", "speak", "code", "copy"):
        assert id_ in reached, id_
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, textarea, button, canvas")]
            .filter((each) => !each.labels?.length && !each.textContent.trim() && !each.ariaLabel)
            .map((each) => each.id)"""
    )
    assert nameless == []
    # Arrows choose a tab.
    page.get_by_role("tab", name="curl").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Python"
    assert "urllib" in page.inner_text("#code")


def test_models_that_are_not_there_cannot_be_chosen(opened):
    page = opened()
    assert page.evaluate("document.querySelector('#model option[value=\"kokoro-82m\"]').disabled")
    assert page.input_value("#model") == "house"
    # Not one of this server's models makes voices: nothing is promised.
    assert page.is_hidden("#cloning")


def test_a_dropped_recording_becomes_a_voice(open_page):
    """The server's part stands in: no model in the box makes voices. What is sent is what is tested."""
    sent = {}
    deleted: list[str] = []

    def models(route):
        body = route.fetch().json()
        for entry in body["models"]:
            entry["cloning"] = entry["id"] == "house"
        route.fulfill(json=body)

    def voices(route):
        if route.request.method == "GET":
            body = route.fetch().json()
            if sent and not deleted:
                ann = {"id": "voice_1", "name": "Ann", "language": None, "gender": None, "kind": "cloned"}
                body["voices"].append(ann)
            route.fulfill(json=body)
        elif route.request.method == "DELETE":
            deleted.append(route.request.url)
            route.fulfill(json={"id": "voice_1", "deleted": True})
        elif not sent:
            sent["body"] = route.request.post_data_buffer
            route.fulfill(json={"id": "voice_1", "name": "Ann"})
        else:
            route.fulfill(status=400, json={"error": {"message": "Half a second is too short.", "code": "bad_audio"}})

    page = open_page("/docs")
    page.route("**/v1/models", models)
    page.route(re.compile(r"/v1/audio/voices"), voices)
    page.goto("/")
    until(page, "!document.querySelector('#cloning').hidden")
    file = ["ann.wav", "audio/wav", "RIFF"]
    page.evaluate(DROP, file)
    assert page.input_value("#clone-name") == "ann"
    # Without consent nothing is sent.
    page.click("#drop button")
    assert not sent
    page.fill("#clone-name", "Ann")
    page.check("#consent")
    page.click("#drop button")
    until(page, "document.querySelector('#voice input:checked').value === 'voice_1'")
    assert b'name="name"\r\n\r\nAnn\r\n' in sent["body"]
    assert b'name="consent"\r\n\r\ntrue\r\n' in sent["body"]
    assert b'name="file"; filename="ann.wav"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n' in sent["body"]
    # A refusal says why.
    page.expected.append("400")
    page.evaluate(DROP, file)
    page.fill("#clone-name", "Ann")
    page.check("#consent")
    page.click("#drop button")
    until(page, "!document.querySelector('#clone-error').hidden")
    assert page.inner_text("#clone-error") == "Half a second is too short."
    # And what was made can be taken back.
    page.click("#forget")
    until(page, "document.querySelector('#forget').hidden")
    assert [url.rsplit("/", 1)[1] for url in deleted] == ["voice_1"]
    assert page.locator("#voice input:checked").get_attribute("value") == ""


def test_a_model_s_own_parameters_can_be_set(open_page):
    """No model in the box takes any: the listing is changed on its way."""

    def models(route):
        body = route.fetch().json()
        for entry in body["models"]:
            entry["parameters"] = ["temperature", "cfg_weight"] if entry["id"] == "house" else None
        route.fulfill(json=body)

    frames: list[dict] = []
    page = open_page("/docs")
    page.route("**/v1/models", models)
    page.route_web_socket(
        "**/v1/audio/stream", lambda socket: socket.on_message(lambda message: frames.append(json.loads(message)))
    )
    page.goto("/")
    until(page, READY)
    page.click("#tuning-summary")
    page.fill("#temperature", "0.7")
    page.fill("#seed", "42")
    assert page.locator("#exaggeration").count() == 0
    assert '"temperature": 0.7' in page.inner_text("#code")
    page.click("#speak")
    until(page, lambda: frames)
    assert {"temperature": 0.7, "seed": 42}.items() <= frames[0].items()
    assert "cfg_weight" not in frames[0]


def test_samples_survive_frames_cut_anywhere(open_page):
    page = open_page()
    numbers = page.evaluate(
        """async () => {
            const { SpeechStream } = await import("/web/stream.js");
            const heard = [];
            const stream = Object.assign(Object.create(SpeechStream.prototype),
              { half: null, on: { audio: (samples) => heard.push(...samples) } });
            const bytes = new Uint8Array(Int16Array.from([1, -2, 300, -400, 32767, -32768, 7]).buffer);
            const cuts = [0, 1, 2, 5, 5, 12, 14];
            for (let i = 1; i < cuts.length; i++) stream.hear(bytes.slice(cuts[i - 1], cuts[i]).buffer);
            return heard.map((sample) => sample * 32768);
        }"""
    )
    assert numbers == [1, -2, 300, -400, 32767, -32768, 7]


def test_long_text_is_sent_in_pieces_that_are_whole_characters(opened):
    page = opened()
    frames: list[str] = []

    def answer(socket) -> None:
        def hear(message: str) -> None:
            frames.append(message)
            if '"start"' in message:
                socket.send('{"type": "ready", "sample_rate": 24000, "model": "m", "voice": "v", "lang": "l"}')

        socket.on_message(hear)

    page.route_web_socket("**/v1/audio/stream", answer)
    text = "a" + "😀" * 9_000
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    until(page, lambda: any('"flush"' in frame for frame in frames))
    pieces = [event["text"] for event in map(json.loads, frames) if event["type"] == "text"]
    assert "".join(pieces) == text
    assert len(pieces) == 3
    assert max(len(frame.encode()) for frame in frames) < 65_536
    page.keyboard.press("Escape")


def test_the_picture_has_the_spectrum_of_numpy_and_is_bounded(open_page):
    page = open_page()
    samples = np.random.default_rng(7).standard_normal(512).astype(np.float32)
    found = page.evaluate(
        """async (samples) => [...(await import("/web/picture.js")).spectrum(Float32Array.from(samples))]""",
        samples.tolist(),
    )
    # 32-bit butterflies, nine deep, of values around 1.
    np.testing.assert_allclose(found, np.abs(np.fft.rfft(samples))[:256], atol=1e-4)
    # However long the sound is.
    size, merged, seconds = page.evaluate(
        """async () => {
            const { Picture } = await import("/web/picture.js");
            const picture = new Picture(document.querySelector("#wave"), document.querySelector("#spectrum"));
            const second = new Float32Array(24000).map((_, i) => Math.sin(i / 5) / 2);
            for (let i = 0; i < 120; i++) picture.push(second);
            return [picture.columns.length, picture.merge, picture.seconds];
        }"""
    )
    assert seconds == 120
    assert size * merged <= 120 * 24_000 / 256 < (size + 1) * merged
    assert size < 2048


def test_what_is_not_said_as_it_is_written_is_shown(opened):
    page = opened()
    page.fill("#text", "Dr. Lee paid $5, and $5 more.")
    page.click("#reading summary")
    until(page, "document.querySelectorAll('#reading dt').length === 2")
    assert page.locator("#reading dt").all_inner_texts() == ["Dr.", "$5"]
    assert page.locator("#reading dd").all_inner_texts() == ["doctor", "five dollars"]
    # It follows the text.
    page.fill("#text", "Good night.")
    until(page, "document.querySelector('#reading-note').textContent.includes('as it is written')")
    assert page.locator("#reading dt").count() == 0
    page.fill("#text", " ")
    until(page, "document.querySelector('#reading-note').textContent.includes('Write something')")
    # A translation is read in the place of the text.
    page.select_option("#translate", "fr-fr")
    assert page.is_hidden("#reading")


def test_a_wrong_reading_is_mended_and_kept(opened):
    page = opened()
    page.fill("#text", "Ask Nguyen of the W3C.")
    page.click("#reading summary")
    page.fill("#lexicon", "Nguyen = /wˈɪn/\nnot a line\nW3C\tWorld Wide Web Consortium")
    until(page, "document.querySelectorAll('#reading dt').length === 2")
    assert page.locator("#reading dd").all_inner_texts() == ["/wˈɪn/", "World Wide Web Consortium"]
    assert '"Nguyen": "/wˈɪn/"' in page.text_content("#code")
    # What cannot be read is said, in both places.
    page.expected.append("400 (Bad Request)")
    page.fill("#lexicon", "Nguyen = /???/")
    until(page, "document.querySelector('#reading-note').textContent.includes('Nguyen')")
    page.click("#speak")
    until(page, "document.querySelector('#error').textContent.includes('Nguyen')")
    page.fill("#lexicon", "Nguyen = Win")
    page.reload()
    until(page, READY)
    assert page.input_value("#lexicon") == "Nguyen = Win"


def test_an_error_before_any_sound_leaves_no_empty_player(opened):
    page = opened()
    page.select_option("#translate", "fr-fr")
    speak(page, "Colorless green ideas sleep furiously.", ERROR)
    assert page.is_hidden("#result")
    assert page.is_hidden("#times")
    assert page.is_visible("#invitation")
    # A result of before can still be heard.
    page.select_option("#translate", "")
    speak(page, "Good night.")
    speak(page, "…", ERROR)
    assert page.is_hidden("#result")
    page.click("#history .entry")
    until(page, "playground.position > 0.1")
    assert page.is_visible("#result")
