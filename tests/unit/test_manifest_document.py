"""Reading a file: what is refused, where it says so, and what a word in it means."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from grass.document_file import load_document
from grass.errors import InputError, ManifestError
from grass.manifest import read_document


def refusal(content: bytes | str, **options: bool) -> str:
    with pytest.raises(ManifestError) as caught:
        read_document(content, **options)
    return str(caught.value)


def test_a_yaml_file_becomes_plain_values(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text("name: a\ncomponents:\n  x: {command: [echo, hi], replicas: 3, fast: true, none: }\n")
    wanted = {"name": "a", "components": {"x": {"command": ["echo", "hi"], "replicas": 3, "fast": True, "none": None}}}
    assert load_document(path) == wanted


def test_a_json_file_becomes_the_same_values(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    wanted = {"name": "a", "list": [1, 2.5, True, None, "é😀"], "components": {}}
    path.write_text(json.dumps(wanted, indent="\t"))
    assert load_document(path) == wanted


def test_words_that_yaml_1_1_takes_for_something_else_stay_text() -> None:
    document = read_document("a: no\nb: on\nc: 1:30\nd: 2024-01-01\ne: 0x10\nf: 1_000\ng: .inf\nh: 010")
    assert document == {
        "a": "no", "b": "on", "c": "1:30", "d": "2024-01-01", "e": "0x10", "f": "1_000", "g": ".inf", "h": "010",
    }  # fmt: skip


def test_a_number_that_would_not_print_as_written_stays_text() -> None:
    assert read_document("a: 1.10\nb: 1.5\nc: -3\nd: 1e3\ne: '7'") == {
        "a": "1.10",
        "b": 1.5,
        "c": -3,
        "d": "1e3",
        "e": "7",
    }
    assert read_document('{"a": 1.10, "b": 1.5, "c": NaN}', json=True) == {"a": "1.10", "b": 1.5, "c": "NaN"}
    assert read_document('{"a": ' + "9" * 10_000 + "}", json=True) == {"a": "9" * 10_000}


def test_anchors_and_merge_keys_serve_to_share_parts() -> None:
    text = "base: &b {cpu: 1, gpu: 0}\na: {<<: *b, cpu: 2}\nc: {<<: [*b, {x: 1}]}\nd: *b"
    document = read_document(text)
    assert document["a"] == {"cpu": 2, "gpu": 0}
    assert document["c"] == {"cpu": 1, "gpu": 0, "x": 1}
    assert document["d"] == {"cpu": 1, "gpu": 0}


def test_a_key_that_stands_twice_is_refused_with_its_path_and_lines() -> None:
    message = refusal("name: a\ncomponents:\n  x:\n    command: a\n    env: {}\n    command: b\n")
    assert message == "components.x.command: line 6: the key appears twice; first on line 4"
    assert refusal('{"a": {"b": 1, "b": 2}}', json=True) == "a.b: the key appears twice"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2", "is not YAML: did not find expected ',' or ']'"),
        ("a: b: c", "line 1, column 5: is not YAML: mapping values are not allowed in this context"),
        ("é: 1\n\ta: 1\n", "line 2, column 1: is not YAML: a tab; use spaces to indent"),
        ("a: @b", "line 1, column 4: is not YAML: a text that begins with this character needs quotes"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins; a file must have one document"),
        ("- a\n- b\n", "must be a mapping (KEY: VALUE lines), but is a list"),
        ("just words", "must be a mapping (KEY: VALUE lines), but is text"),
        ("", "must be a mapping (KEY: VALUE lines), but is empty"),
        (
            "a: !!python/object/apply:os.system [x]",
            'a: line 1: the YAML tag "tag:yaml.org,2002:python/object/apply:os.sy',
        ),
        ("a: !!binary aGk=", 'a: line 1: the YAML tag "tag:yaml.org,2002:binary" is not supported'),
        ("? [a, b]\n: c", "line 1: a key must be text, not a mapping or a list"),
        ("a: &x [*x]", "a[0]: line 1: the alias *x has no anchor before it"),
        ("a: {<<: 3}", 'a."<<": line 1: `<<` needs a mapping or a list of mappings'),
        (b"name: caf\xe9\n", "line 1: is not UTF-8 text (byte 0xe9)"),
        ("a: b".encode("utf-16"), "line 1: is not UTF-8 text (byte 0xff)"),
        (b"a: \x07", "is not YAML: unacceptable character #x0007: control characters are not allowed"),
        (b"x" * (1 << 20) + b"y", "is larger than 1 MiB"),
    ],
)
def test_what_cannot_be_accepted_says_why(content: bytes | str, message: str) -> None:
    assert message in refusal(content)


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "has more than 100000 values" in refusal("\n".join(lines))


def test_merge_keys_cannot_hide_a_bomb() -> None:
    wide = ", ".join(f"k{i}: {i}" for i in range(1000))
    assert "has more than 100000 values" in refusal(f"a: &a {{{wide}}}\nb: {{<<: [{', '.join(['*a'] * 200)}]}}")


def test_deep_nesting_is_refused_in_yaml_and_json_and_through_aliases() -> None:
    assert "nested more than 32 levels" in refusal("a: " + "[" * 500 + "]" * 500)
    assert re.search("nested more than 32 levels|nesting depth", refusal("a: " + "[" * 5000 + "]" * 5000))  # libyaml's
    assert "nested more than 32 levels" in refusal('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", json=True)
    assert "nested more than 32 levels" in refusal('{"a": ' + "[" * 40 + "]" * 40 + "}", json=True)
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 40)]
    assert "nested more than 32 levels" in refusal("\n".join(lines))


def test_too_many_values_are_refused_in_json_as_well() -> None:
    assert "has more than 100000 values" in refusal('{"a": [' + "1," * 100_001 + "1]}", json=True)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read_document("name: a".encode("utf-8-sig")) == {"name": "a"}


def test_half_of_a_surrogate_pair_is_refused() -> None:
    assert "surrogate" in refusal("a: '\ud800'")


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no-such\.yml: no such file"):
        load_document(tmp_path / "no-such.yml")
    with pytest.raises(InputError, match="is a directory"):
        load_document(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        load_document(Path("a\0b"))


def test_the_file_stands_before_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(ManifestError) as caught:
        load_document(path)
    assert str(caught.value).startswith(f"{path}: a: line 2: ")
    assert caught.value.source == str(path)
