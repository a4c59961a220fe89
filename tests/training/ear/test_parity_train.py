"""The ear's features, distortions and training. Needs PyTorch: `make parity`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training.ear.augment import Augmentation
from training.ear.data import MAX_SAMPLES, Corpus, Rows, batches, single
from training.ear.features import log_mel, warped
from training.ear.greedy import ctc_tokens
from training.ear.network import Ear, Sizes, frame_mask
from training.ear.texts import train_tokenizer
from training.ear.train import Trainer, save

pytestmark = pytest.mark.parity

SIZES = {"n_audio_state": 64, "n_audio_layer": 2, "n_audio_head": 2}
SIZES |= {"n_text_state": 64, "n_text_layer": 1, "n_text_head": 2}
TEXTS = ["Yes.", "Where is the train station?", "The dog runs, and the cat sleeps.", "Good morning!"]


def noise(samples: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(samples) * 3000).astype(np.int16)


def trainer_and_corpus():  # type: ignore[no-untyped-def]
    tokenizer = train_tokenizer(TEXTS)
    corpus = Corpus(tokenizer, torch.device("cpu"))
    audio = [noise(9000 + 7000 * i, i) for i in range(len(TEXTS))]
    counts = np.array([each.size for each in audio])
    for part in (slice(0, 1), slice(1, None)):  # the second makes the device's memory grow
        sound = torch.from_numpy(np.concatenate(audio[part]))
        corpus.add(sound, counts[part], TEXTS[part], ["noise"] * len(TEXTS[part]))
    sizes = Sizes(tokenizer.get_vocab_size(), **SIZES)
    return Trainer(tokenizer, sizes, torch.device("cpu"), seed=1), corpus


def test_log_mel_is_whispers() -> None:
    whisper = pytest.importorskip("whisper")
    audio = torch.from_numpy(noise(48_000, 1).astype(np.float32) / 32768)
    ours = log_mel(torch.stack([audio, audio * 0.1]))
    for row, each in zip(ours, (audio, audio * 0.1), strict=True):
        assert torch.allclose(row, whisper.log_mel_spectrogram(each), atol=1e-5)


def test_network_is_whispers() -> None:
    whisper = pytest.importorskip("whisper")
    torch.manual_seed(3)
    ear = Ear(Sizes(521, n_audio_ctx=100, **SIZES), 512, dropout=0.0)
    sizes = ear.sizes
    model = whisper.model.Whisper(whisper.model.ModelDimensions(
        80, 100, 64, 2, 2, sizes.n_vocab, sizes.n_text_ctx, 64, 2, 1))  # fmt: skip
    state = {name: tensor for name, tensor in ear.state_dict().items() if not name.startswith("ctc.")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert (missing, unexpected) == ([], [])
    mel, tokens = torch.randn(2, 80, 200), torch.randint(0, 521, (2, 9))
    states, _ = ear.encoder(mel, frame_mask(torch.tensor([100, 100]), 100))
    assert torch.allclose(states, model.encoder(mel), atol=1e-4)
    found = ear.decoder(tokens, states, frame_mask(torch.tensor([100, 100]), 100))
    assert torch.allclose(found, model.decoder(tokens, states), atol=1e-4)


def test_padding_changes_nothing() -> None:
    ear = Ear(Sizes(521, **SIZES), 512).eval()
    mel = torch.randn(1, 80, 120)
    short, _ = ear.encoder(mel, frame_mask(torch.tensor([60]), 60))
    padded = torch.cat([mel, torch.zeros(1, 80, 80)], 2)
    long, _ = ear.encoder(padded, frame_mask(torch.tensor([60]), 100))
    assert torch.allclose(short[:, :59], long[:, :59], atol=1e-5)  # the last sees the convolution's edge
    other, _ = ear.encoder(padded, frame_mask(torch.tensor([100]), 100))
    assert not torch.allclose(short[:, :59], other[:, :59], atol=1e-3)


@pytest.mark.parametrize("name", ["room", "tilt", "muffle", "add_noise", "add_babble", "codec", "telephone", "clip"])
def test_a_distortion_is_one(name: str) -> None:
    audio = torch.from_numpy(np.stack([noise(16_000, i) for i in range(4)]).astype(np.float32) / 32768)
    found = getattr(Augmentation(torch.device("cpu"), 2), name)(audio)
    assert found.shape == audio.shape
    assert torch.isfinite(found).all()
    change = (found - audio).norm() / audio.norm()
    assert 0.01 < change < 20
    same = getattr(Augmentation(torch.device("cpu"), 2), name)(audio)
    assert torch.equal(found, same)


@pytest.mark.parametrize("hertz", [600, 3000])
def test_a_mouth_of_another_size_moves_all_tones(hertz: int) -> None:
    at = torch.arange(8000) / 16_000
    rows = log_mel(
        torch.stack([torch.sin(2 * np.pi * each * at) for each in (hertz * 0.86, hertz * 1.16, *[hertz] * 64)])
    )
    low, high = rows[:2, :, 20].argmax(1).tolist()
    moved = warped(rows[2:], torch.Generator().manual_seed(1))[:, :, 20].argmax(1)
    assert low - 1 <= int(moved.min()) < int(rows[2, :, 20].argmax()) < int(moved.max()) <= high + 1


def test_strength_is_the_share_of_rows_that_change() -> None:
    audio = torch.from_numpy(np.stack([noise(4000, i) for i in range(200)]).astype(np.float32) / 32768)

    def changed(strength: float) -> float:
        found = Augmentation(torch.device("cpu"), 2)(audio, strength)
        same = torch.nn.functional.cosine_similarity(found, audio, 1) > 0.9999  # the level changes in any case
        return 1 - float(same.float().mean())

    assert changed(0.0) == 0
    assert 0.15 < changed(0.2) < 0.5
    assert changed(1.0) > 0.8


def test_a_corpus_leaves_out_what_is_too_long() -> None:
    _, corpus = trainer_and_corpus()
    before = len(corpus)
    samples = np.array([5000, MAX_SAMPLES + 1, 3, 6000])
    audio = torch.from_numpy(np.concatenate([np.full(count, at, np.int16) for at, count in enumerate(samples, 1)]))
    corpus.add(audio, samples, ["One.", "Two.", "Three.", "Four."], list("abcd"))
    assert (corpus.texts[before:], corpus.speakers[before:]) == (["One.", "Four."], ["a", "d"])
    rows = corpus.batch(single([before, before + 1]))
    assert (rows.audio[0, :5000] == 1 / 32768).all()
    assert (rows.audio[1, :6000] == 4 / 32768).all()
    assert not rows.audio[1, 6000:].any()


def test_weights_with_fewer_blocks_say_the_same_at_first(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS)
    small = Ear(Sizes(tokenizer.get_vocab_size(), **SIZES), 512).eval()
    np.savez(tmp_path / "weights.npz", **{name: array.numpy() for name, array in small.state_dict().items()})
    sizes = Sizes(tokenizer.get_vocab_size(), **SIZES | {"n_audio_layer": 3})
    trainer = Trainer(tokenizer, sizes, torch.device("cpu"), seed=1)
    trainer.begin(tmp_path)
    mel, mask = torch.randn(1, 80, 120), frame_mask(torch.tensor([60]), 60)
    assert torch.allclose(small.encoder(mel, mask)[0], trainer.average.encoder(mel, mask)[0], atol=1e-5)
    (tmp_path / "weights.npz").unlink()
    np.savez(tmp_path / "weights.npz", **{"ctc.out.bias": small.ctc.out.bias.detach().numpy()})
    with pytest.raises(RuntimeError, match=r"encoder\.conv1"):
        trainer.begin(tmp_path)


@pytest.mark.usefixtures("one_thread")
def test_it_learns_and_goes_on(tmp_path: Path) -> None:
    trainer, corpus = trainer_and_corpus()
    batch = corpus.batch(single(range(len(TEXTS))))
    losses = [trainer.step(batch, 3e-3) for _ in range(24)]
    assert losses[-1][0] < 0.2 * losses[0][0]
    assert losses[-1][1] < 0.2 * losses[0][1]
    save(tmp_path, trainer)
    other, _ = trainer_and_corpus()
    other.resume(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert other.steps == trainer.steps == 24
    for before, after in zip(trainer.average.parameters(), other.average.parameters(), strict=True):
        assert torch.equal(before, after)
    with np.load(tmp_path / "weights.npz") as weights:
        assert weights["encoder.conv1.weight"].shape == (64, 80, 3)


def test_batches_hold_rows_of_like_length() -> None:
    _, corpus = trainer_and_corpus()
    drawn = [next(batches(corpus, 4.0, 1, number)) for number in range(60)]
    again = [next(batches(corpus, 4.0, 1, number)) for number in range(60)]
    assert all(np.array_equal(one.utterances, other.utterances) for one, other in zip(drawn, again, strict=True))
    assert {int(each) for rows in drawn for each in rows.utterances[:, 0]} >= {0, 1, 2, 3}
    assert any((rows.utterances[:, 1] >= 0).any() for rows in drawn)
    for rows in drawn[:6]:
        batch = corpus.batch(rows)
        assert batch.audio.shape[1] % 8000 == 0
        assert batch.audio.shape[1] <= MAX_SAMPLES
        assert (batch.tokens >= 0).sum(1).tolist() == batch.lengths.tolist()


def test_a_row_is_its_utterances_and_silence() -> None:
    _, corpus = trainer_and_corpus()
    rows = Rows(np.array([[1, 0], [-1, -1], [2, -1]]), np.array([[100, 50], [700, 0], [0, 0]]))
    batch = corpus.batch(rows)
    first = np.concatenate([np.zeros(100), noise(16_000, 1), np.zeros(50), noise(9000, 0)])
    assert batch.samples.tolist() == [25_150, 700, 23_000]
    assert np.array_equal(batch.audio[0, :25_150].numpy() * 32768, first)
    assert not batch.audio[0, 25_150:].any()
    assert not batch.audio[1].any()
    assert np.array_equal(batch.audio[2, :23_000].numpy() * 32768, noise(23_000, 2))
    tokens = [corpus.encoded(text) for text in (f"{TEXTS[1]} {TEXTS[0]}", TEXTS[2])]
    assert batch.tokens[0, : batch.lengths[0]].tolist() == tokens[0]
    assert batch.lengths[1] == 0
    assert batch.tokens[2, : batch.lengths[2]].tolist() == tokens[1]


def test_a_step_that_is_not_finite_learns_nothing() -> None:
    trainer, corpus = trainer_and_corpus()
    batch = corpus.batch(single([0, 1]))
    batch.audio[0, :400] = float("nan")
    values = trainer.step(batch, 1e-3)
    assert values[-1] == 1
    assert all(bool(torch.isfinite(p).all()) for p in trainer.network.parameters())


def test_greedy_text_of_a_head() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([[3, 3, 4, 3, 3, 0, 1], [4, 4, 4, 4, 4, 4, 4]]), 5).float()
    assert ctc_tokens(logits, [6, 7], 4) == [[3, 3, 0], []]
