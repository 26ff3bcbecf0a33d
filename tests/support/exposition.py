"""What `/metrics` says, taken apart."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from support.serving import Server

Labels = tuple[tuple[str, str], ...]
#: Values by sample name and labels.
Samples = dict[tuple[str, Labels], float]


def scrape(server: Server) -> str:
    """The text that Prometheus would get."""
    answer = server.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


def families(text: str) -> dict[str, Metric]:
    """Families by the name that people query: a counter's ends in ``_total``."""
    found = text_string_to_metric_families(text)
    return {f"{metric.name}_total" if metric.type == "counter" else metric.name: metric for metric in found}


def samples(metric: Metric) -> Samples:
    """The values of one family."""
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in metric.samples}


def value(text: str, name: str, **labels: str) -> float | None:
    """One value, or None where there is no such series."""
    metric = families(text).get(name)
    return samples(metric).get((name, tuple(sorted(labels.items())))) if metric is not None else None
