"""How a page's bytes are laid out: what is digested, and what must agree for digests to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pd_tracer_hooks.digest.definition import DIGEST_VERSION, hex64
from pd_tracer_hooks.keys import hash64


@dataclass(frozen=True)
class Segment:
    """A run of equal rows inside a page: ``row_bytes`` bytes a row from byte ``offset`` on."""

    offset: int
    row_bytes: int


@dataclass(frozen=True)
class PageLayout:
    """One page of one layer: its size in bytes, its rows (token slots) and where their bytes lie.

    Bytes in no segment are padding and never digested. Of a page with ``v`` valid rows each segment
    gives its first ``v * row_bytes`` bytes. Raises ``ValueError`` for a layout that does not fit.
    """

    page_bytes: int
    rows: int
    segments: tuple[Segment, ...]
    dtype: str = "uint8"
    kind: str = "rows"

    def __post_init__(self) -> None:
        if self.page_bytes <= 0 or self.rows <= 0 or not self.segments:
            raise ValueError(f"page_bytes, rows and segments must not be empty: {self}")
        for segment in self.segments:
            end = segment.offset + self.rows * segment.row_bytes
            if segment.offset < 0 or segment.row_bytes <= 0 or end > self.page_bytes:
                raise ValueError(f"segment {segment} needs bytes up to {end} of a page of {self.page_bytes}")

    @classmethod
    def plain(cls, rows: int, row_bytes: int, dtype: str = "uint8", kind: str = "rows") -> PageLayout:
        """A page that is nothing but its rows, such as MLA kv."""
        return cls(rows * row_bytes, rows, (Segment(0, row_bytes),), dtype, kind)

    @classmethod
    def opaque(cls, page_bytes: int, dtype: str = "uint8") -> PageLayout:
        """A page of which nothing is known: one row, digested whole."""
        return cls(page_bytes, 1, (Segment(0, page_bytes),), dtype, "opaque")

    def valid_spans(self, rows: int | None = None) -> tuple[tuple[int, int], ...]:
        """(offset, length) in bytes of what is digested in a page with ``rows`` valid rows (None: all)."""
        valid = self.rows if rows is None else rows
        if not 0 <= valid <= self.rows:
            raise ValueError(f"rows={valid}: a page of this layout has 0 to {self.rows}")
        return tuple((segment.offset, valid * segment.row_bytes) for segment in self.segments)

    def valid_parts(self, page: bytes, rows: int | None = None) -> list[bytes]:
        """The bytes of ``page`` that are digested, one part a segment."""
        return [page[start : start + size] for start, size in self.valid_spans(rows)]

    def split_rows(self, tokens: int, tokens_per_row: int = 1) -> tuple[int, int]:
        """(pages, valid rows of the last page) that ``tokens`` fill; pages without a row do not count."""
        rows = tokens // tokens_per_row
        pages = -(-rows // self.rows)
        return pages, rows - (pages - 1) * self.rows if pages else 0


#: DSA index-K: 64 rows of 128 key bytes, then 64 scales of 4 bytes.
DSA_INDEX_K = PageLayout(8448, 64, (Segment(0, 128), Segment(8192, 4)), "uint8", "index_k_with_scale")


def signature_fields(
    *, component: str, layout: PageLayout, k: int, layer_choice: str = "all", head_slice: str = ""
) -> dict[str, str]:
    """Everything that must agree for two digests to be comparable, by name."""
    return {
        "digest": DIGEST_VERSION,
        "component": component,
        "dtype": layout.dtype,
        "page_bytes": str(layout.page_bytes),
        "rows": str(layout.rows),
        "segments": " ".join(f"{s.offset}:{s.row_bytes}" for s in layout.segments),
        "layout": layout.kind,
        "head_slice": head_slice,
        "k": str(k),
        "layer_choice": layer_choice,
    }


def signature(fields: Mapping[str, str]) -> str:
    """Hash of the signature's fields (sorted by name), as 16 hex digits."""
    flat = [text for name in sorted(fields) for text in (name, fields[name])]
    return hex64(hash64("signature.1", *flat))
