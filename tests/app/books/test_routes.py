"""Jobs over HTTP: their life, their owners, their limits, and that live streams go first."""

from __future__ import annotations

import io
import json
import select
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile

from app.books.journal import ChapterJournal
from app.books.store import JobStore
from app.config import Settings
from models.contract import AudioChunk, SpeechRequest
from tests.app.conftest import PATIENCE, Running, ToneCatalog, start, stop, wait_until
from tests.app.server.middleware import keys

BOOK = "Chapter 1\n\nOne sentence. Another one.\n\nA paragraph.\n\nChapter 2\n\nThe end.\n"
PASSAGES = 5  # with two titles


class Client:
    """Client of one server, with a key or without."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def ask(self, method: str, path: str = "", headers: dict[str, str] | None = None, **sent: Any) -> httpx.Response:
        given = self._headers | (headers or {})
        return httpx.request(method, f"{self.url}/v1/jobs{path}", headers=given, timeout=PATIENCE, **sent)

    def post(self, text: str | bytes = BOOK, name: str = "book.txt", **fields: Any) -> httpx.Response:
        return self.ask("POST", files={"file": (name, text)}, data=fields)

    def make(self, text: str = BOOK, **fields: Any) -> str:
        reply = self.post(text, **fields)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["id"])

    def get(self, path: str = "", **fields: Any) -> httpx.Response:
        return self.ask("GET", path, **fields)

    def cancel(self, job: str) -> httpx.Response:
        return self.ask("POST", f"/{job}/cancel")

    def delete(self, job: str) -> httpx.Response:
        return self.ask("DELETE", f"/{job}")

    def wait(self, job: str, *statuses: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(self.get(f"/{job}").json())
            return found["status"] in (statuses or ("completed", "failed", "cancelled", "expired"))

        assert wait_until(reached), found
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Running]:
    running = start(Settings(data_dir=folder), ToneCatalog())
    yield running
    stop(running)


@pytest.fixture
def client(shared: Running) -> Client:
    shared.tone.gate.set()
    return Client(shared.url)


Serving = Callable[..., tuple[Running, Client, Client]]


@pytest.fixture
def serving(start_server: Callable[..., Running], tmp_path: Path) -> Serving:
    """`serving(file, **settings)`: a server of its own, and two clients: Ada and Bob, if `file` has their keys."""

    def begin(file: str = "", **settings: Any) -> tuple[Running, Client, Client]:
        if file:
            (tmp_path / "keys.toml").write_text(file)
            settings["keys_file"] = str(tmp_path / "keys.toml")
        running = start_server(data_dir=tmp_path, **settings)
        ada, bob = (Client(running.url, key if file else None) for key in (keys.ADA, keys.BOB))
        return running, ada, bob

    return begin


def test_a_book_with_chapters_and_subtitles(client: Client, shared: Running, folder: Path) -> None:
    fields = {"subtitles": '["srt", "vtt"]', "author": "A. Nobody", "metadata": '{"a": "b"}'}
    job = client.wait(client.make(**fields))
    assert job["status"] == "completed", job
    assert wait_until(lambda: 'nightingale_jobs_finished_total{status="completed"}' in shared.metrics())
    assert job["request_counts"] == {"total": PASSAGES, "completed": PASSAGES, "failed": 0}
    assert job["chapters"] == {"total": 2, "completed": 2}
    assert (job["progress"], job["metadata"], job["input_file"]) == (1.0, {"a": "b"}, "book.txt")
    assert job["created_at"] <= job["in_progress_at"] <= job["finalizing_at"] <= job["completed_at"]
    assert job["expires_at"] > time.time() + 600_000
    files = {file["name"]: file for file in job["files"]}
    assert set(files) == {"book.m4b", "book.srt", "book.vtt"}
    reply = client.get(f"/{job['id']}/files/book.m4b")
    assert reply.headers["content-type"] == "audio/mp4"
    assert 'filename="book.m4b"' in reply.headers["content-disposition"]
    assert len(reply.content) == files["book.m4b"]["bytes"]
    with av.open(io.BytesIO(reply.content)) as book:
        assert [chapter["metadata"]["title"] for chapter in book.chapters()] == ["Chapter 1", "Chapter 2"]
        assert (book.metadata["artist"], book.metadata["title"]) == ("A. Nobody", "book")
    subtitles = client.get(f"/{job['id']}/files/book.srt").text
    assert subtitles.index("Chapter 1") < subtitles.index("Another one.") < subtitles.index("The end.")
    data = folder / "jobs" / job["id"]
    assert wait_until(lambda: {path.name for path in data.iterdir()} == {"document.jsonl", "results"})
    part = client.get(f"/{job['id']}/files/book.m4b", headers={"range": "bytes=4-11"})
    assert (part.status_code, part.content) == (206, reply.content[4:12])


def test_a_file_for_each_chapter(client: Client) -> None:
    job = client.wait(client.make(format="chapters", chapter_format="flac", title="My: book/1"))
    (file,) = job["files"]
    assert file["name"] == "My-book-1.zip"
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/{job['id']}/files/{file['name']}").content))
    assert archive.namelist() == ["1-Chapter-1.flac", "2-Chapter-2.flac"]
    pcm, rate = soundfile.read(io.BytesIO(archive.read("1-Chapter-1.flac")))
    gaps = np.diff(np.flatnonzero(np.abs(pcm) > 1e-3)) / rate
    # Those of `pauses`; paragraphs have 120 ms of their own silence, which the stand-in does not make.
    assert gaps[gaps > 0.1] == pytest.approx([0.78, 0.5, 0.78], abs=0.02)


def test_subtitles_by_a_model_of_one_speed_lose_no_cue(client: Client) -> None:
    """The first cue is too long for its time: it is neither hurried nor left out, and the next one is late."""
    text = "1\n00:00:01,000 --> 00:00:01,200\nThis is far too long a text for its time.\n\n"
    text += "2\n00:00:01,300 --> 00:00:02,000\nThe end.\n\n"
    fields = {"format": "mp3", "subtitles": "srt", "model": "parrot", "voice": "own"}
    # The model is loaded for it.
    made = client.ask("POST", headers={"prefer": "wait"}, files={"file": ("film.srt", text)}, data=fields)
    assert made.status_code == 200, made.text
    job = client.wait(made.json()["id"])
    assert job["status"] == "completed", job
    dubbed = client.get(f"/{job['id']}/files/film.srt").text
    assert "far too long" in dubbed and "The end." in dubbed, dubbed
    assert not job.get("failures"), job


@pytest.mark.parametrize("cues", [1, 2, 100])
def test_subtitles_keep_their_times(client: Client, monkeypatch: pytest.MonkeyPatch, cues: int) -> None:
    monkeypatch.setattr("app.books.work._CUES", cues)
    text = "".join(f"{n}\n00:00:{n:02},500 --> 00:00:{n:02},900\nCue {n}.\n\n" for n in (1, 5, 9))
    job = client.wait(client.make(text, name="film.srt", format="mp3", subtitles="srt"))
    assert job["status"] == "completed", job
    dubbed = client.get(f"/{job['id']}/files/film.srt").text
    assert all(f"00:00:{n:02},500 -->" in dubbed for n in (1, 5, 9)), dubbed
    with av.open(io.BytesIO(client.get(f"/{job['id']}/files/film.mp3").content)) as book:
        assert 9.8 < (book.duration or 0) / av.time_base < 10.5


def test_warnings_of_a_document_are_told(client: Client) -> None:
    text = "1\n00:00:02,000 --> 00:00:01,000\nBack.\n\n2\n00:00:03,000 --> 00:00:04,000\n[Ioan](/aɪən/) goes.\n"
    job = client.wait(client.make(text, name="film.srt", format="mp3", subtitles="srt"))
    assert (job["status"], len(job["warnings"])) == ("completed", 1)
    assert job["warnings"][0].startswith("Cue 1 (00:00:02,000 --> 00:00:01,000) ends before it begins")
    shown = client.get(f"/{job['id']}/files/film.srt").text
    assert "Back." in shown and "Ioan goes." in shown


def test_marks_of_a_document_change_the_voice_of_the_paragraph(serving: Serving, monkeypatch: Any) -> None:
    running, client, _ = serving()
    stream = running.tone.stream
    voices: dict[str, str] = {}

    def record(request: SpeechRequest, *rest: Any) -> Iterator[AudioChunk]:
        voices[request.text.strip()] = request.voice
        return stream(request, *rest)

    monkeypatch.setattr(running.tone, "stream", record)
    running.tone.gate.set()
    long = [f"Sentence {number} of a paragraph that is spoken in parts." for number in range(30)]
    text = f"Begin. [voice:silky] {' '.join(long)}\n\n[voice:nobody] Hi.\n\nPlain.\n"
    assert client.wait(client.make(text))["status"] == "completed"
    assert voices["Begin."] == voices["Plain."] == "steady"
    assert {voices.pop(sentence) for sentence in long} == {"silky"}
    assert [text for text in voices if "nobody" in text]  # no voice of this server: text
    voices.clear()
    assert client.wait(client.make("[voice:silky] Hi.\n", voice_marks="false"))["status"] == "completed"
    assert set(voices.values()) == {"steady"}


def test_events_end_with_the_job_and_go_on(client: Client) -> None:
    job = client.make()
    with httpx.stream("GET", f"{client.url}/v1/jobs/{job}/events", timeout=PATIENCE) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        lines = list(reply.iter_lines())
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    ids = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
    assert set(events[:-1]) <= {"job.progress"}
    assert events[-1] == "job.completed"
    assert ids == sorted(set(ids))
    assert json.loads([line for line in lines if line.startswith("data: ")][-1][6:])["status"] == "completed"
    again = client.get(f"/{job}/events", headers={"last-event-id": str(ids[-1] - 1)})
    assert again.text.count("event: ") == 1
    assert client.get(f"/{job}/events", headers={"last-event-id": str(ids[-1])}).status_code == 204


def test_pages(client: Client) -> None:
    made = [client.make() for _ in range(3)]
    first = client.get(params={"limit": 2}).json()
    assert ([each["id"] for each in first["data"]], first["has_more"]) == ([made[2], made[1]], True)
    assert (first["object"], first["first_id"], first["last_id"]) == ("list", made[2], made[1])
    second = client.get(params={"limit": 1, "after": first["last_id"]}).json()
    assert second["data"][0]["id"] == made[0]
    assert client.get(params={"after": "job_nothing"}).status_code == 404
    assert client.get(params={"limit": 0}).status_code == 400
    for job in made:
        client.wait(job)


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"speed": "9"}, "speed"), ({"voice": "nobody"}, "voice"), ({"model": "none"}, "model"), ({"x": "1"}, "x"),
     ({"metadata": "[1]"}, "metadata"), ({"metadata": "{"}, "metadata"), ({"format": "ogg"}, "format"),
     ({"subtitles": "[1"}, "subtitles"), ({"subtitles": "ass"}, "subtitles"), ({"title": "a" * 501}, "title"),
     ({"lexicons": "lexicon_0"}, "lexicons"), ({"source": "fr"}, "source"), ({"lang": "tlh"}, "lang"),
     ({"metadata": json.dumps({str(n): "" for n in range(17)})}, "metadata")],
)  # fmt: skip
def test_wrong_fields_are_refused(client: Client, fields: dict[str, str], param: str) -> None:
    reply = client.post(**fields)
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.json()["error"]["param"] == param, reply.text


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.txt", b""), ("a.txt", b"..."), ("a.pdf", b"text"), ("a", b"text"), ("a.epub", b"PK\x03\x04"), ("a.srt", b"a")],
)
def test_wrong_documents_are_refused(client: Client, name: str, text: bytes) -> None:
    reply = client.post(text, name=name)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_document"), reply.text


def test_wrong_requests_are_refused(client: Client) -> None:
    reply = client.ask("POST", data={"voice": "steady"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "file")
    assert client.ask("POST", data={"file": "text"}).json()["error"]["param"] == "file"
    assert client.ask("POST", json={"file": "text"}).status_code == 400
    for path in ("/job_x", "/job_x/events", "/job_x/files/a", "/..%2f..%2fkeys/files/a"):
        assert client.get(path).status_code == 404, path
    job = client.make()
    client.wait(job)
    for name in ("document.jsonl", "..%2fdocument.jsonl", "%2e%2e%2fdocument.jsonl", "book.mp3"):
        assert client.get(f"/{job}/files/{name}").status_code == 404, name


def test_a_passage_that_cannot_be_spoken_is_left_out(client: Client) -> None:
    # An emphasis of pronunciation that is no phoneme.
    job = client.wait(client.make("Good. \n\n[word](/\U0001f600/) wrong.\n\nGood again.\n"))
    assert job["status"] == "completed", job
    assert job["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    (error,) = job["errors"]["data"]
    assert (error["line"], error["code"]) == (2, "invalid_markup")


def test_a_model_that_fails_fails_the_job(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.books.work._FIRST_WAIT", 0.0)
    job = client.wait(client.make("One.\n\nTwo.\n", voice="broken"))
    assert job["status"] == "failed"
    assert {error["code"] for error in job["errors"]["data"]} == {"model_failed"}
    assert (job["files"], job["bytes"]) == ([], 0)


def test_a_live_stream_goes_first(shared: Running) -> None:
    client, tone = Client(shared.url), shared.tone
    tone.gate.clear()
    tone.begun.clear()
    job = client.make("One is held. Two waits. Three waits.\n\nFour waits.\n", voice="gated")
    assert wait_until(lambda: tone.begun == ["One is held."])

    def listen() -> None:
        body = {"input": "I am live. I go on.", "voice": "steady", "response_format": "pcm"}
        heard.append(len(httpx.post(f"{shared.url}/v1/audio/speech", json=body).content))

    heard: list[int] = []
    listener = threading.Thread(target=listen)
    listener.start()
    assert wait_until(lambda: 'queue_depth{priority="first"} 1.0' in shared.metrics())
    assert 'queue_depth{priority="background"} 2.0' in shared.metrics()
    tone.gate.set()
    listener.join(PATIENCE)
    client.wait(job)
    assert heard[0] > 0
    assert tone.begun.index("I go on.") == 2, tone.begun
    assert tone.begun == ["One is held.", "I am live.", "I go on.", "Two waits.", "Three waits.", "Four waits."]


def test_a_job_holds_its_model(shared: Running) -> None:
    """It is not unloaded between two passages."""
    client = Client(shared.url)

    def requests() -> int:
        return int(httpx.get(f"{shared.url}/v1/models/tone", timeout=PATIENCE).json()["requests"])

    shared.tone.gate.clear()
    job = client.make("One is held.\n\nTwo.\n", voice="gated")
    assert wait_until(lambda: requests() == 1)
    shared.tone.gate.set()
    assert client.wait(job)["status"] == "completed"
    assert wait_until(lambda: requests() == 0)


def test_cancel_and_delete(shared: Running) -> None:
    client = Client(shared.url)
    shared.tone.gate.clear()
    held, waits = client.make(voice="gated"), client.make()
    client.wait(held, "in_progress")
    assert client.ask("HEAD", f"/{held}/events").status_code == 200
    assert client.cancel(waits).json()["status"] == "cancelling"
    assert client.cancel(held).json()["status"] == "cancelling"
    for job in (held, waits):
        assert client.wait(job)["status"] == "cancelled"
        assert client.cancel(job).json()["status"] == "cancelled"
        assert client.delete(job).json() == {"id": job, "object": "job", "deleted": True}
        assert client.get(f"/{job}").status_code == 404
    running = client.make(voice="gated")
    client.wait(running, "in_progress")
    assert client.delete(running).status_code == 200
    assert client.get(f"/{running}").status_code == 404
    shared.tone.gate.set()
    client.wait(client.make())


def test_a_job_that_waits_is_cancelled_beside_a_long_one(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.books.work._TURN", 0.0)
    running, client, _ = serving()
    running.tone.gate.clear()
    long, waits = client.make("A short one.\n\n" * 500, voice="gated_second"), client.make()
    client.wait(long, "in_progress")
    client.cancel(waits)

    def cancelled() -> bool:
        running.tone.gate.set()  # one passage or a few
        running.tone.gate.clear()
        return client.get(f"/{waits}").json()["status"] == "cancelled"

    assert wait_until(cancelled)
    assert client.get(f"/{long}").json()["status"] == "in_progress"
    client.delete(long)


def test_a_restart_goes_on(serving: Serving) -> None:
    first, client, _ = serving()
    first.tone.gate.clear()
    job = client.make("One.\n\nTwo.\n\nThree.\n", voice="gated_second")
    assert wait_until(lambda: first.tone.begun == ["One.", "Two."])
    first.server.should_exit = True
    first.thread.join(PATIENCE)
    second, client, _ = serving()
    second.tone.gate.set()
    found = client.wait(job)
    assert (found["status"], second.tone.begun) == ("completed", ["Two.", "Three."])


def test_a_job_that_ends_the_server_is_given_up(serving: Serving, tmp_path: Path) -> None:
    running, client, _ = serving()
    running.tone.gate.clear()
    held, job = client.make(voice="gated"), client.make()
    with closing(JobStore(tmp_path / "jobs")) as store:
        store.change(job, lambda each: replace(each, starts=3))
    client.cancel(held)
    found = client.wait(job)
    assert found["status"] == "failed"
    assert "ended 3 times" in found["errors"]["data"][0]["message"]


def test_a_damaged_document_fails_the_job(client: Client, shared: Running, folder: Path) -> None:
    shared.tone.gate.clear()
    held, job = client.make(voice="gated"), client.make()
    path = folder / "jobs" / job / "document.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    client.cancel(held)
    assert [each["message"] for each in client.wait(job)["errors"]["data"]] == ["The document of the job is damaged."]


def test_results_expire(serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.books.runner._SWEEP_SECONDS", 0.0)
    monkeypatch.setattr("app.books.runner._POLL_SECONDS", 0.1)
    _, client, _ = serving(jobs_seconds=1)
    job = client.make()
    found = client.wait(job, "expired")
    assert (found["files"], found["bytes"]) == ([], 0)
    assert client.get(f"/{job}/files/book.m4b").status_code == 404
    assert wait_until(lambda: client.get(f"/{job}").status_code == 404)
    assert [path.name for path in (tmp_path / "jobs").glob("job_*")] == []


def test_jobs_belong_to_their_key(serving: Serving) -> None:
    running, ada, bob = serving(keys.FILE.replace("characters_per_minute = 60\n", ""), key_jobs=2)
    job = ada.make()
    assert ada.wait(job)["status"] == "completed"
    assert bob.get().json()["data"] == []
    for path in ("", "/events", "/files/book.m4b"):
        assert bob.get(f"/{job}{path}").status_code == 404
    assert (bob.cancel(job).status_code, bob.delete(job).status_code) == (404, 404)
    assert Client(running.url).get().status_code == 401
    ada.make()
    refused = ada.post()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "delete one" in refused.json()["error"]["message"]
    bob.make()
    ada.delete(job)
    ada.make()


@pytest.mark.parametrize("name", ["long.txt", "long.srt"])
def test_keys_take_turns_within_a_long_text(serving: Serving, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A paragraph without an end, or subtitles, hold up the jobs of nobody else."""
    monkeypatch.setattr("app.books.work._TURN", 0.0)
    running, ada, bob = serving(f'ada = "{keys.ADA}"\nbob = "{keys.BOB}"\n')
    sentences = [f"Sentence {number} of a text that is long enough to be spoken in parts." for number in range(40)]
    cues = [f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{text}\n" for n, text in enumerate(sentences)]
    text = " ".join(sentences) if name == "long.txt" else "\n".join(cues)
    running.tone.gate.clear()
    held = bob.make("Held.", voice="gated")
    bob.wait(held, "in_progress")
    long = ada.post(text, name, subtitles="srt").json()["id"]
    short = bob.make("Short.")
    running.tone.gate.set()
    for client, job in ((bob, short), (ada, long)):
        assert client.wait(job)["status"] == "completed"
    spoken = list(dict.fromkeys(running.tone.begun))
    assert spoken.index("Short.") < len(spoken) - 1
    assert [each for each in spoken if each.startswith("Sentence")] == sentences
    counts = ada.get(f"/{long}").json()["request_counts"]
    assert counts["completed"] == counts["total"] == (1 if name == "long.txt" else 40)
    shown = ada.get(f"/{long}/files/long.srt").text.replace("\n", " ")
    assert all(text in shown for text in sentences)


def test_a_key_that_must_wait_for_its_quota_holds_up_no_other(serving: Serving) -> None:
    _, ada, bob = serving(f'ada = "{keys.ADA}"\n[bob]\nkey = "{keys.BOB}"\ncharacters_per_minute = 100\n')
    poor = bob.make("One sentence is spoken here.\n\n" * 10)
    bob.wait(poor, "in_progress")
    assert ada.wait(ada.make("Hello."))["status"] == "completed"
    assert bob.get(f"/{poor}").json()["status"] == "in_progress"
    assert bob.delete(poor).status_code == 200


def test_a_job_ends_with_its_key(serving: Serving, tmp_path: Path) -> None:
    ada = f'ada = "{keys.ADA}"\n'
    running, _, bob = serving(f'{ada}bob = "{keys.BOB}"\n')
    running.tone.gate.clear()
    job = bob.make("One.\n\nTwo.\n\nThree.\n", voice="gated_second")
    assert wait_until(lambda: running.tone.begun == ["One.", "Two."])
    (tmp_path / "keys.toml").write_text(ada)
    assert wait_until(lambda: bob.get().status_code == 401)
    running.tone.gate.set()
    with closing(JobStore(tmp_path / "jobs")) as store:
        assert wait_until(lambda: getattr(store.get(job), "status", "") == "failed")
        assert getattr(store.get(job), "errors", ())[0].code == "invalid_api_key"
    assert "Three." not in running.tone.begun


def test_an_admin_stops_and_deletes_the_jobs_of_others(serving: Serving) -> None:
    running, ada, bob = serving(f'bob = "{keys.BOB}"\n[ada]\nkey = "{keys.ADA}"\nadmin = true\n')
    done = bob.make()
    bob.wait(done, "completed")
    # What was made of a document is its owner's alone.
    assert ada.get(f"/{done}/files/book.m4b").status_code == 403
    running.tone.gate.clear()
    held = bob.make(voice="gated")
    bob.wait(held, "in_progress")
    assert {each["id"] for each in ada.get().json()["data"]} == {done, held}
    assert ada.cancel(held).status_code == 200
    assert bob.wait(held)["status"] == "cancelled"
    assert ada.delete(done).status_code == 200
    assert bob.get(f"/{done}").status_code == 404


def test_a_job_that_is_cancelled_while_it_begins_closes_its_files(serving: Serving, monkeypatch: Any) -> None:
    journals: list[ChapterJournal] = []
    gate = threading.Event()

    def slow(folder: Path, number: int) -> ChapterJournal:
        journals.append(ChapterJournal(folder, number))
        gate.wait(60)
        return journals[-1]

    monkeypatch.setattr("app.books.work.ChapterJournal", slow)
    _, client, _ = serving()
    job = client.make()
    assert wait_until(lambda: journals)
    assert client.cancel(job).status_code == 200
    gate.set()
    assert client.wait(job)["status"] == "cancelled"
    assert wait_until(lambda: journals[0]._samples.closed)


def test_a_cancelled_job_frees_its_thread(serving: Serving) -> None:
    """What is written of it ends with it: the next job of another key begins at once."""
    _, client, _ = serving()
    words = "Wait for it. " * 4_000  # they may be followed by ten hours of silence
    late = f"1\n00:00:00,000 --> 00:00:01,000\nHi.\n\n2\n10:00:00,000 --> 10:00:01,000\n{words[:9_000]}\n"
    job = client.post(late, "late.srt").json()["id"]
    client.wait(job, "in_progress")
    assert client.delete(job).status_code == 200
    assert client.wait(client.make())["status"] == "completed"


def test_a_key_pays_for_its_book(serving: Serving) -> None:
    running, _, bob = serving(f'[bob]\nkey = "{keys.BOB}"\ncharacters_per_minute = 3000\n')
    # The upload costs 1000 characters: the second passage waits until its quota has grown again.
    job = bob.make("One.\n\n" + "word " * 410)
    assert bob.wait(job)["status"] == "completed"
    body = {"input": "word " * 400}
    refused = httpx.post(f"{running.url}/v1/audio/speech", json=body, headers={"authorization": f"Bearer {keys.BOB}"})
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"


def test_bytes_are_bounded(serving: Serving) -> None:
    _, client, _ = serving(jobs_bytes=60_000, max_document_bytes=100_000)
    job = client.wait(client.make("A sentence of some length follows another one.\n\n" * 20))
    assert (job["status"], job["errors"]["data"][0]["code"], job["bytes"]) == ("failed", "storage_full", 0)
    reply = client.post("word " * 15_000)
    assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage_full")
    assert client.post("word " * 300_000).status_code == 413


def test_slow_uploads_hold_up_no_other(serving: Serving) -> None:
    size = 1 << 20
    _, client, _ = serving(max_document_bytes=size)
    address = httpx.URL(client.url)
    head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    part = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    slow = [socket.create_connection((address.host, address.port), PATIENCE) for _ in range(2)]
    try:
        for each in slow:
            each.sendall(f"{head}Content-Length: {2 * size}\r\n\r\n{part}".encode() + b"a" * (2 * size - 1_000))
        for _ in range(3):
            text = "Hello there. " * (size // 14)
            assert client.post(text).status_code == 200
        # There was room for one of them.
        (lost,) = select.select(slow, (), (), PATIENCE)[0]
        assert b" 503 " in lost.recv(1_000).split(b"\r\n")[0]
    finally:
        for each in slow:
            each.close()


def test_jobs_may_be_off(serving: Serving, tmp_path: Path) -> None:
    _, client, _ = serving(jobs=False)
    assert (client.post().status_code, client.get().status_code) == (404, 404)
    assert not (tmp_path / "jobs").exists()
