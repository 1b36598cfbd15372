"""Text of a command line that is not UTF-8 is refused by name, before anything is sent."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from grass.api.encodable import check_encodable
from grass.api.transport import with_query
from grass.errors import InputError

BAD = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"manifest": {"components": {"main": {"command": ["echo", BAD]}}}}, "components.main.command[1]"),
        ({"cwd": f"/home/{BAD}"}, "cwd"),
        ({"shell": {"A": BAD}}, "shell.A"),
        ({"manifest": {"env": {BAD: "1"}}}, "a name in env"),
        ({"argv": [BAD]}, "argv[0]"),
        (BAD, "the request"),
    ],
)
def test_a_text_that_is_not_utf_8_is_named(content: Any, where: str) -> None:
    with pytest.raises(InputError) as raised:
        check_encodable(content, json.dumps(content))
    assert str(raised.value).startswith(f"{where}: must be UTF-8 text, got '") and "caf\\xe9'" in str(raised.value)


def test_so_is_one_in_the_query_of_a_request() -> None:
    with pytest.raises(InputError, match="tag: must be UTF-8 text"):
        with_query("/v1/jobs", {"tag": BAD, "all": True})


def test_other_text_is_sent_as_it_is() -> None:
    content = {"a": ["é", "𝄞", "\\udce9", "\n"]}
    check_encodable(content, json.dumps(content))
