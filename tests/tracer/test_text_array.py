"""What PostgreSQL reads out of a binary text array."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tracer.store.text_array import TextArray, teach


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["a", "", "b"],
        ["null", "NULL", "{}", 'quo"te', "back\\slash", "line\nbreak", "äöü\U0001f600"],
    ],
    ids=len,
)
def test_an_array_arrives_as_it_is(postgres_url: str, texts: list[str]) -> None:
    url = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        teach(cursor)
        found = cursor.execute("SELECT t FROM unnest(%s) AS t", [TextArray(texts)]).fetchall()
        assert [text for (text,) in found] == texts
