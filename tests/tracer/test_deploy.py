"""The compose file and what it mounts, checked as far as that goes without a container engine."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tracer.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_compose_has_the_whole_stack() -> None:
    assert {"collector", "postgres", "prometheus", "grafana"} <= set(SERVICES)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_pinned_or_built_here(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        build = service["build"]
        assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    else:
        assert re.search(r":v?\d", service["image"]), f"{service['image']} has no version"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_mounts_and_dependencies_exist(name: str) -> None:
    service = SERVICES[name]
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]
    depends = service.get("depends_on", [])
    assert set(depends) <= set(SERVICES)
    if isinstance(depends, dict):
        for other, condition in depends.items():
            if condition["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_published_ports_are_on_loopback(name: str) -> None:
    assert all(str(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", ["collector", "migrate"])
def test_environment_names_are_settings(name: str) -> None:
    known = {f"PD_TRACER_{field}".upper() for field in Settings.model_fields}
    assert set(SERVICES[name]["environment"]) <= known


def test_passwords_come_from_the_environment() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for line in text.splitlines():
        if "PASSWORD" in line and ":" in line and not line.lstrip().startswith("#"):
            assert "${" in line, line


def test_dockerfile_copies_and_runs_what_exists() -> None:
    text = (ROOT / "deploy/docker/collector.Dockerfile").read_text()
    assert "constraints.txt" in text
    assert 'ENTRYPOINT ["pd-tracer"]' in text
    assert 'pd-tracer = "tracer.cli.main:app"' in (ROOT / "pyproject.toml").read_text()


def test_prometheus_scrapes_the_collector_s_port() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    targets = [t for job in config["scrape_configs"] for s in job["static_configs"] for t in s["targets"]]
    assert f"collector:{Settings().port}" in targets


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)")
def test_promtool_takes_the_configuration() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", str(ROOT / "deploy/prometheus/prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


DASHBOARD = ROOT / "deploy/grafana/dashboards/pd-tracer.json"


def test_the_dashboard_in_the_repository_is_what_its_source_builds() -> None:
    spec = importlib.util.spec_from_file_location("build_dashboard", ROOT / "deploy/grafana/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.build() == DASHBOARD.read_text(), "run python deploy/grafana/build.py"


def test_every_metric_on_the_dashboard_is_documented() -> None:
    documented = (ROOT / "docs/metrics.md").read_text()
    expressions = [
        target["expr"]
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", [])
    ]
    assert len(expressions) >= 12
    for name in re.findall(r"pd_tracer_\w+", " ".join(expressions)):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert f"`{family}`" in documented, f"{name} is on the dashboard and not in docs/metrics.md"
