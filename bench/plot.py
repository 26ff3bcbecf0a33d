"""The plot of bench/digest.py: rate by the size of a room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

KINDS = [
    ("us", "SM64 (pd-tracer)", "o-", "#1f77b4"),
    ("plain_us", "plain sum, same kernel", ".--", "#7f7f7f"),
    ("hash_tensor_us", "gather + torch.hash_tensor", "s-", "#2ca02c"),
    ("clone_us", "copy, later compare", "^-", "#9467bd"),
    ("adler_us", "SGLang's Adler-32", "v-", "#d62728"),
]


def plot_rooms(figures: dict[str, Any], path: Path) -> None:
    """Write the plot. Needs matplotlib."""
    import matplotlib  # noqa: PLC0415 - optional

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    rooms = [row for row in figures["rooms"] if "plain_us" in row]
    layouts = list(dict.fromkeys(row["layout"] for row in rooms))
    figure, axes = pyplot.subplots(1, len(layouts), figsize=(13, 3.6), sharey=True)
    for axis, layout in zip(axes, layouts, strict=True):
        rows = [row for row in rooms if row["layout"] == layout]
        for key, label, style, colour in KINDS:
            points = [(row["bytes"] / 1e6, row["bytes"] / row[key] / 1e3) for row in rows if row.get(key)]
            if points:
                axis.loglog(*zip(*points, strict=True), style, color=colour, label=label, markersize=4)
        axis.axhline(figures["sum_gbs"], color="black", linewidth=0.7, linestyle=":")
        axis.set_title(f"{layout}, {rows[0]['page_bytes']} B a page", fontsize=9)
        axis.set_xlabel("MB in the room (61 layers)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("GB/s", fontsize=8)
    axes[0].text(0.02, 0.97, "dotted: torch.sum", fontsize=7, transform=axes[0].transAxes, va="top")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=5, fontsize=8, frameon=False)
    figure.suptitle(f"Digesting one room, cold pages: {figures['device']}", fontsize=10)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)
