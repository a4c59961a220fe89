"""Clients whose sentences are spoken together, by a real server with the house voice: each hears its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.clients import samples, speak
from tests.processes import metric, serve, wait_until

LONG = (
    "When the old bridge was closed for repairs last winter, the people of both villages took the ferry instead, and "
    "some of them found that they liked the slow crossing better than the drive."
)
SHORT = ["Hello world.", "The kettle is on.", "Good morning.", "It was quiet.", "One, two, three."]
TURNS = r'nightingale_batch_size_count\{model="house"\}'


@pytest.mark.timeout(1_800)
def test_each_client_of_a_batch_hears_its_own(house_server: str, tmp_path: Path) -> None:
    asked = [(text, voice) for text in SHORT for voice in ("am_michael", "af_heart")]
    with serve(tmp_path, NIGHTINGALE_SPEECH_BATCH="4") as process, ThreadPoolExecutor(len(asked) + 2) as clients:
        server = process.url
        long = clients.submit(speak, server, LONG, voice="am_michael", seed=len(LONG))
        wait_until(lambda: metric(server, TURNS) >= 1)
        # Clients of a busy machine may come one after the other: then they come again.
        for rounds in range(1, 21):
            replies = [clients.submit(speak, server, text, voice=voice, seed=len(text)) for text, voice in asked]
            unknown = clients.submit(speak, server, SHORT[0], voice="nobody")
            together = [samples(reply.result()) for reply in replies]
            assert unknown.result().status_code == 400
            if metric(server, TURNS) < 1 + rounds * len(asked):
                break
        assert len(samples(long.result())) > 200_000
        turns = metric(server, TURNS)
        spoken = metric(server, r'nightingale_batch_size_sum\{model="house"\}')
        assert metric(server, r'nightingale_batch_size_bucket\{le="4.0",model="house"\}') == turns
        stages = replies[0].result().headers["server-timing"]
    assert spoken == 1 + rounds * len(asked)
    assert turns < spoken, "nobody was spoken together with another"
    for stage in ("queue", "g2p", "voice", "bert", "text_encoder", "predictor", "decoder", "audio_encode"):
        assert f"{stage};dur=" in stages
    for (text, voice), pcm in zip(asked, together, strict=True):
        alone = samples(speak(house_server, text, voice=voice, seed=len(text)))
        assert len(pcm) == len(alone)
        assert np.linalg.norm(pcm - alone) < 0.03 * np.linalg.norm(alone)
