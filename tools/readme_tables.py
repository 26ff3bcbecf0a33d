"""Writes the settings tables of README.md from the code: python tools/readme_tables.py"""

from __future__ import annotations

import re
from pathlib import Path

from pd_tracer_hooks.settings import settings_table as hooks_table
from tracer.settings import settings_table as collector_table

README = Path(__file__).resolve().parents[1] / "README.md"
TABLES = {"collector": collector_table, "hooks": hooks_table}


def with_tables(text: str) -> str:
    """``text`` with today's tables between its markers. Raises ``ValueError`` if a marker is missing."""
    for name, table in TABLES.items():
        begin, end = f"<!-- settings of the {name} -->", f"<!-- end of settings of the {name} -->"
        block = f"{begin}\n{table()}\n{end}".replace("\\", r"\\")
        text, found = re.subn(f"{re.escape(begin)}.*?{re.escape(end)}", block, text, flags=re.DOTALL)
        if not found:
            raise ValueError(f"README.md has no marker {begin}")
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
    print("README.md has today's settings")
