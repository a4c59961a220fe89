"""The files of configs/docker, held against those that they come from; Docker itself is not asked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config import PREFIX, Settings, load_settings
from app.server_process import check_public
from tests.processes import ROOT, run

DOCKER = ROOT / "configs" / "docker"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


COMPOSE = load(DOCKER / "compose.yaml")
SERVICES = COMPOSE["services"]
CUDA = load(DOCKER / "compose.cuda.yaml")["services"]["nightingale"]


def mounts(service: str) -> dict[str, str]:
    """Source of each place in a container."""
    return {place: source for source, place, *_ in (each.split(":") for each in SERVICES[service].get("volumes", []))}


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_exists(service):
    for source in mounts(service).values():
        if source.startswith("."):
            assert (DOCKER / source).exists()
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_published_on_this_machine_alone_and_rights_are_few(service):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service]["ports"])
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in SERVICES[service]


def test_targets_are_stages_of_the_dockerfile():
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert stages[-1] == "cpu"
    build = SERVICES["nightingale"]["build"]
    assert {build["target"], CUDA["build"]["target"]} == {"cpu", "cuda"} <= set(stages)
    assert (DOCKER / build["context"]).resolve() == ROOT


def test_the_server_accepts_its_environment():
    given = SERVICES["nightingale"]["environment"]
    assert all(name.startswith(PREFIX) for name in given)
    settings = load_settings(None, {**given, "HOST": "0.0.0.0", "HOME": "/data"})  # noqa: S104  (as in the image)
    check_public(settings)
    grace = float(SERVICES["nightingale"]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["drain_seconds"].default + 5


def test_prometheus_is_configured_as_without_docker(program, tmp_path):
    ours, theirs = load(DOCKER / "prometheus.yml"), load(ROOT / "configs" / "prometheus" / "prometheus.yml")
    assert ours["scrape_configs"][0].pop("static_configs") == [{"targets": ["nightingale:8000"]}]
    theirs["scrape_configs"][0].pop("static_configs")
    assert ours == theirs
    assert "8000" in SERVICES["nightingale"]["ports"][0].split(":")
    # Laid out as in the container.
    for place, source in mounts("prometheus").items():
        if source.startswith("."):
            shutil.copy(DOCKER / source, tmp_path / Path(place).name)
    done = run(program("promtool"), "check", "config", "--lint-fatal", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rules found") == len(theirs["rule_files"])


def test_grafana_is_provisioned_as_without_docker():
    base = ROOT / "configs" / "grafana" / "provisioning"
    ours, theirs = load(DOCKER / "grafana-datasource.yml"), load(base / "datasources" / "nightingale.yml")
    assert ours["datasources"][0].pop("url") == "http://prometheus:9090"
    theirs["datasources"][0].pop("url")
    assert ours == theirs
    (provider,) = load(base / "dashboards" / "nightingale.yml")["providers"]
    dashboards = DOCKER / mounts("grafana")[provider["options"]["path"]]
    assert [path.name for path in dashboards.glob("*.json")] == ["nightingale.json"]
