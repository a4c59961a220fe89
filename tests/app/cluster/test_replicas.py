"""Decisions before Ray starts. tests/cluster has the tests with a real Ray."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

from app.cluster import replicas as cluster
from app.config import Settings, SettingsError


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"max_replicas": 1}, "max_replicas"),
        ({"max_replicas": 4, "target_streams": 9, "max_streams": 8}, "target_streams"),
        ({"wyoming_port": 10200}, "wyoming_port"),
        ({"host": "0.0.0.0"}, "allow_public"),  # noqa: S104 - refused
    ],
)
def test_settings_that_replicas_cannot_use_are_refused(given: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=f"'{name}'") as refused:
        cluster.check(Settings(replicas=2, **given))
    assert "\n" not in str(refused.value)


def test_ray_is_told_what_the_settings_say() -> None:
    settings = Settings(replicas=2, max_streams=9, max_waiting=5, drain_seconds=7, replica_cpus=3, replica_gpus=0.5)
    told = cluster.options(settings)
    assert told["num_replicas"] == 2
    assert "autoscaling_config" not in told
    assert (told["max_ongoing_requests"], told["max_queued_requests"]) == (9, 5)
    assert told["backpressure_config"]["status_code"] == 429
    assert told["graceful_shutdown_timeout_s"] > 7
    assert told["ray_actor_options"] == {"num_cpus": 3, "num_gpus": 0.5}
    grown = cluster.options(settings.model_copy(update={"max_replicas": 6}))
    assert "num_replicas" not in grown
    assert (grown["autoscaling_config"]["min_replicas"], grown["autoscaling_config"]["max_replicas"]) == (2, 6)


@pytest.mark.parametrize(("alive", "age", "healthy"), [(True, 119.0, True), (True, 121.0, False), (False, 0.0, False)])
def test_a_replica_is_unhealthy_when_only_a_new_process_helps(alive: bool, age: float, healthy: bool) -> None:
    replica = cluster.Replica(Settings(liveness_seconds=120), None, bytes(32))
    # Nothing is there yet: it is starting, and may take its time.
    asyncio.run(replica.check_health())
    replica._app = FastAPI()
    replica._app.state.services = SimpleNamespace(worker=SimpleNamespace(alive=alive, heartbeat_age=age))
    with contextlib.nullcontext() if healthy else pytest.raises(RuntimeError, match="progress"):
        asyncio.run(replica.check_health())


def test_without_the_extra_the_command_says_how_to_get_it() -> None:
    # `ray` is hidden, so that this holds where it is installed, too.
    code = (
        "import sys; sys.modules['ray'] = None; from app.main import main; "
        "sys.exit(main(['serve', '--replicas', '2', '--port', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == f"nightingale: {cluster.MISSING}\n"
