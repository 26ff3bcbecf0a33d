"""Settings come from the environment, say what is wrong, and are documented."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tracer.settings import PREFIX, Settings, settings_table

ROOT = Path(__file__).resolve().parents[2]


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PD_TRACER_PORT", "9000")
    monkeypatch.setenv("PD_TRACER_SEND_DEADLINE_S", "5")
    settings = Settings()
    assert (settings.port, settings.policy().send_deadline_s) == (9000, 5.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"),
        ("send_deadline_s", "0"),
        ("database_url", "mysql://h/d"),
        ("queue_batches", "0"),
        ("log_level", "loud"),
    ],
)
def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(PREFIX + name.upper(), value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert caught.value.errors()[0]["loc"] == (name,)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    table = settings_table()
    assert all(f"`{PREFIX}{name.upper()}`" in table for name in Settings.model_fields)


def test_the_readme_has_them_all() -> None:
    readme = (ROOT / "README.md").read_text()
    for line in settings_table().splitlines()[2:]:
        assert line in readme, "run python tools/readme_tables.py"
