"""What is shown of a job file: the text as it was written, without secrets."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grass.errors import UndecodableError
from grass.manifest.secret_text import shown_text
from grass.manifest.yaml_text import write
from grass.model.secrets import REDACTED
from grass.wire.job_file import LONGEST_NAME, MOST_PACKED, JobFile, pack, unpack

FILE = """# für Anna  # WANDB_API_KEY: hidden1
name: x   # GIT_TOKEN=hidden2, and more
base: &base {MY_TOKEN: "hiddén3", PLAIN: shown1}
source: http://ann:hidden4@host/x
components:
  main:
    env:
      <<: *base
      DB_PASSWORD: |
        hidden5
        hidden6
      AUTH_KEY: 'hidden7'   # shown2
    pod:
    - name: S3_SECRET
      value: hidden8
    - {value: hidden9, name: "X_TOKEN"}
    - {value: shown3, name: X}
    matrix: {API_TOKEN: [hidden10, {x: hidden11}], SEED: [shown4]}
    command: echo shown5
"""


def test_a_job_file_is_shown_as_it_was_written_without_its_secrets() -> None:
    text = shown_text(FILE)
    assert text is not None and "hidd" not in text
    assert [f"shown{number}" in text for number in range(1, 6)] == [True] * 5
    assert text.count("\n") == FILE.count("\n") - 2  # a block of three lines has become one
    kept = [line for line in FILE.splitlines() if "hidd" not in line and "DB_PASSWORD" not in line]
    assert all(line in text.splitlines() for line in kept if "AUTH" not in line)


def test_a_script_is_shown_without_the_secrets_of_its_options() -> None:
    lines = "#GRASS --env A_TOKEN=hidden --env 'B_TOKEN=x hidden' --cpu 2\n#GRASS \"--env=C_KEY=x hidden\" --env D=1\n"
    text = shown_text(f"#!/bin/sh\n{lines}TOKEN=$(cat t)\n")
    assert text is not None and "hidden" not in text
    assert "--cpu 2\n" in text and text.endswith(" --env D=1\nTOKEN=$(cat t)\n")


def test_a_secret_that_an_alias_repeats_is_hidden_where_it_is_written() -> None:
    text = shown_text("x: &it hidden\nenv: {TOKEN: *it, API_KEY: &list [hidden, hidden]}\nmore: *list\n")
    assert text is not None and "hidden" not in text and "TOKEN: *it" in text


def test_text_that_cannot_be_read_is_not_shown() -> None:
    assert shown_text("env: {TOKEN: [") is None


@given(st.text(min_size=1).map(lambda value: f"hidden-{value}"), st.booleans())
def test_no_way_to_write_a_secret_shows_it(value: str, nested: bool) -> None:
    document = {"name": "x", "env": {"é": "1", "TOKEN": value}, "last": "kept"}
    text = shown_text(write([document] if nested else document))
    assert text is not None and "hidden" not in text and "last: kept" in text and REDACTED in text


def test_a_file_is_packed_and_unpacked_and_a_long_one_is_not_kept() -> None:
    file = pack("job.yml", FILE)
    assert file is not None and unpack(file) == FILE
    assert pack("job.yml", "".join(map(chr, range(0x4E00, 0x9F00))) * 5) is None
    assert pack("job.yml", "\ud800") is None


@pytest.mark.parametrize("packed", [b"", b"nonsense", b"x" * (MOST_PACKED + 1)])
def test_a_packed_file_that_no_client_made_is_refused(packed: bytes) -> None:
    with pytest.raises(UndecodableError, match="file"):
        unpack(JobFile("job.yml", packed))


def test_a_packed_file_with_a_long_name_is_refused() -> None:
    file = pack("n" * 300, FILE)
    assert file is not None and file.name == "n" * LONGEST_NAME and unpack(file) == FILE
    with pytest.raises(UndecodableError, match=r"^file: must have at most 128 KiB compressed, and a name$"):
        unpack(JobFile("n" * (LONGEST_NAME + 1), file.packed))
    with pytest.raises(UndecodableError, match=r"^file: must have at most 128 KiB compressed, and a name$"):
        unpack(JobFile("job.yml", b"x" * (MOST_PACKED + 1)))


def test_a_packed_file_that_would_grow_beyond_all_bounds_is_refused() -> None:
    file = pack("job.yml", "x" * (1 << 20) + "x")
    assert file is not None and len(file.packed) < 2000
    with pytest.raises(UndecodableError, match="1 MiB"):
        unpack(file)


def test_a_secret_is_hidden_whatever_an_alias_repeats_of_it() -> None:
    text = shown_text(
        "a: &list [hidden1, {x: hidden2}]\npasswords: *list\n"
        "env:\n- {name: &name A_TOKEN, value: hidden3}\n- {name: *name, value: hidden4}\n"
        "- {name: B_TOKEN, value: &value hidden5}\n- {name: C, value: *value}\n"
        "secrets: &map {x: shown1}\ntokens: *map\nlast: shown2\n"
    )
    assert text is not None and "hidden" not in text
    assert "shown1" in text and "shown2" in text  # as a mapping that is written under such a key


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\ufeff"])
def test_a_byte_order_mark_moves_no_secret(mark: str) -> None:
    text = shown_text(f"{mark}password: hidden\nlast: shown\n")
    assert text is not None and text.endswith(f'password: "{REDACTED}"\nlast: shown\n')


@pytest.mark.parametrize(
    "text",
    [
        "#" + "a" * 500_000,
        "# " + "a =" * 200_000,
        "#!/bin/sh\n# " + "a='" * 200_000,
        "x: [" + "&a b, " * 50_000 + "]\ntokens: [" + "*a, " * 50_000 + "]",
        "[" * 200_000,
        "tokens: [" + "".join(f"&a{number} [*a{number - 1}, x], " for number in range(1, 10_000)) + "]",
    ],
)
def test_the_time_for_a_file_grows_with_its_length_only(text: str) -> None:
    begun = time.process_time()
    shown_text(text)
    assert time.process_time() - begun < 5
