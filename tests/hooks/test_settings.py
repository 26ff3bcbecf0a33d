from __future__ import annotations

import socket

import pytest

from pd_tracer_hooks.settings import Settings, SettingsError, settings_table

BASE = {"PD_TRACER_URL": "http://collector:8400", "PD_TRACER_DEPLOYMENT": "d"}


@pytest.mark.parametrize("environ", [{}, {"PD_TRACER_URL": ""}, {"PD_TRACER_DEPLOYMENT": "d"}])
def test_without_a_url_there_are_no_settings(environ: dict[str, str]) -> None:
    assert Settings.from_env(environ) is None


def test_defaults() -> None:
    settings = Settings.from_env(BASE)
    assert settings is not None
    assert settings.server == socket.gethostname()
    assert (settings.sampling, settings.coverage, settings.layers, settings.k) == (1.0, "auto", "all", 4)


def test_every_setting_has_a_variable() -> None:
    settings = Settings.from_env(
        BASE
        | {
            "PD_TRACER_SERVER": "P0",
            "PD_TRACER_RUN": "kv=bf16",
            "PD_TRACER_SAMPLING": "0.25",
            "PD_TRACER_COVERAGE": "full",
            "PD_TRACER_K": "8",
            "PD_TRACER_LAYERS": "rotate:4",
            "PD_TRACER_LAYER_SUMS": "on",
            "PD_TRACER_QUEUE": "10",
        }
    )
    assert settings is not None
    assert (settings.server, settings.run, settings.sampling) == ("P0", "kv=bf16", 0.25)
    assert (settings.coverage, settings.k, settings.layers) == ("full", 8, "rotate:4")
    assert (settings.layer_sums, settings.queue) == (True, 10)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("URL", "collector:8400", "http://HOST:PORT"),
        ("URL", "http://c:port", "http://HOST:PORT"),
        ("URL", "http://", "http://HOST:PORT"),
        ("SERVER", "s" * 225, "at most 224 bytes"),
        ("RUN", "r" * 257, "at most 256 bytes"),
        ("RUN", "a\0b", "plain text"),
        ("DEPLOYMENT", "d" * 257, "at most 256 bytes"),
        ("K", "65537", "up to 65536"),
        ("TIMEOUT_S", "inf", "up to 86400"),
        ("TIMEOUT_S", "nan", "up to 86400"),
        ("FLUSH_MS", "60001", "up to 60000"),
        ("SHUTDOWN_S", "-1", "0 or more"),
        ("SAMPLING", "1.5", "0 to 1"),
        ("SAMPLING", "often", "a number"),
        ("COVERAGE", "most", "auto, ends or full"),
        ("K", "0", "1 or more"),
        ("K", "four", "a whole number"),
        ("LAYERS", "some", "rotate:N"),
        ("LAYER_SUMS", "maybe", "1 or 0"),
        ("QUEUE", "-1", "1 or more"),
        ("TIMEOUT_S", "0", "above 0"),
        ("SAMPLING", "nan", "0 to 1"),
    ],
)
def test_a_bad_value_names_the_variable_the_value_and_the_way_out(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_env(BASE | {f"PD_TRACER_{name}": value})
    message = str(caught.value)
    assert f"PD_TRACER_{name}" in message
    assert repr(value) in message or value in message
    assert says in message


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("86400", 86_400.0)])
def test_the_bounds_themselves_can_be_used(text: str, value: float) -> None:
    settings = Settings.from_env(BASE | {"PD_TRACER_SHUTDOWN_S": text})
    assert settings is not None
    assert settings.shutdown_s == value


def test_a_host_name_that_is_too_long_for_a_server_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 250)
    settings = Settings.from_env(BASE)
    assert settings is not None
    assert settings.server == "h" * 224


def test_a_url_without_a_deployment_is_refused() -> None:
    with pytest.raises(SettingsError, match="PD_TRACER_DEPLOYMENT is missing"):
        Settings.from_env({"PD_TRACER_URL": "http://collector:8400"})


def test_the_table_has_every_setting() -> None:
    table = settings_table()
    assert table.count("\n| `PD_TRACER_") == len(Settings.__dataclass_fields__)
