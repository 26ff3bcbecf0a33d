"""Builds the Grafana dashboard with Grafana's own typed SDK: python deploy/grafana/build.py

The JSON is kept in the repository, so that compose needs no build; a test holds the two equal.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

TARGET = Path(__file__).parent / "dashboards" / "pd-tracer.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="pd-tracer-prometheus")
WHERE = 'deployment=~"$deployment"'


def _query(expression: str, legend: str = "") -> Dataquery:
    return Dataquery().expr(expression).legend_format(legend).datasource(SOURCE)


def _stat(title: str, expression: str, unit: str, span: int = 6) -> stat.Panel:
    return (
        stat.Panel()
        .title(title)
        .unit(unit)
        .span(span)
        .height(4)
        .datasource(SOURCE)
        .with_target(_query(expression))
    )


def _lines(title: str, unit: str, *queries: tuple[str, str], span: int = 12) -> timeseries.Panel:
    panel = timeseries.Panel().title(title).unit(unit).span(span).height(8).datasource(SOURCE)
    for expression, legend in queries:
        panel = panel.with_target(_query(expression, legend))
    return panel


def build() -> str:
    """The dashboard as JSON text."""
    dashboard = (
        Dashboard("pd-tracer")
        .uid("pd-tracer")
        .tags(["pd-tracer"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .with_variable(
            QueryVariable("deployment")
            .query("label_values(pd_tracer_rooms_settled_total, deployment)")
            .datasource(SOURCE)
            .multi(True)
            .include_all(True)
        )
        .with_row(Row("Transfers"))
        .with_panel(
            _stat(
                "Mismatches in the range",
                f'sum(increase(pd_tracer_rooms_settled_total{{{WHERE},verdict="mismatch"}}[$__range]))',
                "short",
            )
        )
        .with_panel(
            _stat(
                "Rooms compared in the range",
                f"sum(increase(pd_tracer_rooms_settled_total"
                f'{{{WHERE},verdict=~"match|mismatch"}}[$__range]))',
                "short",
            )
        )
        .with_panel(_stat("Pending rooms", f"sum(pd_tracer_rooms_pending{{{WHERE}}})", "short"))
        .with_panel(_stat("Oldest pending", f"max(pd_tracer_oldest_pending_age_seconds{{{WHERE}}})", "s"))
        .with_panel(
            _lines(
                "Mismatch ratio by pair",
                "percentunit",
                (f"pd_tracer_mismatch_ratio{{{WHERE}}}", "{{prefill}} → {{decode}}"),
            )
        )
        .with_panel(
            _lines(
                "Mismatch ratio by component",
                "percentunit",
                (
                    f"max by (component) (pd_tracer_component_mismatch_ratio{{{WHERE}}})",
                    "{{component}}",
                ),
            )
        )
        .with_panel(
            _lines(
                "Rooms settled by verdict",
                "reqps",
                (f"sum by (verdict) (rate(pd_tracer_rooms_settled_total{{{WHERE}}}[5m]))", "{{verdict}}"),
            )
        )
        .with_panel(
            _lines(
                "Join delay",
                "s",
                (
                    "histogram_quantile(0.5, sum by (le) (rate(pd_tracer_join_delay_seconds_bucket[5m])))",
                    "median",
                ),
                (
                    "histogram_quantile(0.99, sum by (le) (rate(pd_tracer_join_delay_seconds_bucket[5m])))",
                    "99 %",
                ),
            )
        )
        .with_row(Row("Collector and workers"))
        .with_panel(
            _lines(
                "Records by outcome",
                "cps",
                ("sum by (outcome) (rate(pd_tracer_reports_total[5m]))", "{{outcome}}"),
            )
        )
        .with_panel(
            _lines(
                "Lost in workers",
                "cps",
                (
                    f"sum by (worker, reason) (rate(pd_tracer_worker_drops_total{{{WHERE}}}[5m]))",
                    "{{worker}} {{reason}}",
                ),
            )
        )
        .with_panel(
            _lines(
                "Since each worker's last report",
                "s",
                (f"pd_tracer_worker_last_report_age_seconds{{{WHERE}}}", "{{worker}}"),
            )
        )
        .with_panel(
            _lines("Refused", "cps", ("sum by (reason) (rate(pd_tracer_refusals_total[5m]))", "{{reason}}"))
        )
    )
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard.build()) + "\n"


if __name__ == "__main__":
    TARGET.write_text(build())
    print(f"wrote {TARGET.name}")
