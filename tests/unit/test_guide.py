"""What the documents show must be so: files that they print are accepted, links lead somewhere, commands exist."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import click
import pytest

from grass import Client
from grass.cli.main import grass
from grass.manifest import parse_job, read_document
from grass.manifest.entries import with_entries
from grass.manifest.join_file import parse_join
from grass.manifest.schedule import parse_schedule
from grass.manifest.settings import parse_settings
from grass.manifest.shell import with_shell

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def blocks_shown(language: str) -> list[tuple[str, str]]:
    return [
        (f"{name}-{number}", text)
        for name, path in zip(NAMES, DOCUMENTS, strict=True)
        for number, text in enumerate(re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL), 1)
    ]


def name_of(value: str) -> str:
    return value if "\n" not in value else ""


@pytest.mark.parametrize(("place", "text"), blocks_shown("yaml"), ids=name_of)
def test_a_file_in_the_documents_is_accepted_without_a_warning(place: str, text: str) -> None:
    document = with_shell(read_document(text, source=place), {"HF_TOKEN": "set in the reader's shell"}, {})
    if "node" in document:
        assert parse_join({**document, "token": "grass1.x"}).offer.name
    elif "namespaces" in document:
        assert parse_settings(document).warnings == ()
    elif "cron" in document or "jobs" in document:
        assert parse_schedule(document).warnings == ()
    else:
        complete = with_entries(document, lambda name: (ROOT / name).read_text())
        assert parse_job(complete).warnings == ()


@pytest.mark.parametrize(("place", "text"), blocks_shown("yml"), ids=name_of)
def test_a_part_of_a_settings_file_in_the_documents_is_accepted_without_a_warning(place: str, text: str) -> None:
    assert parse_settings(read_document(text, source=place), source=place).warnings == ()


@pytest.mark.parametrize(("place", "text"), blocks_shown("json"), ids=name_of)
def test_json_in_the_documents_is_json(place: str, text: str) -> None:
    assert json.loads(text), place


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_every_link_in_the_documents_leads_to_a_file(path: Path) -> None:
    text = path.read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "internals").glob("*.md")), ids=lambda path: path.name)
def test_a_line_of_the_internals_has_at_most_120_characters(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), 1)
    assert [number for number, line in lines if len(line) > 120] == []


def test_every_image_of_the_guide_is_shown() -> None:
    shown = {name for path in DOCUMENTS for name in re.findall(r'images/([\w.-]+)"', path.read_text())}
    assert {path.name for path in (ROOT / "docs/guide/images").iterdir()} == shown


def commands_shown(text: str) -> list[list[str]]:
    """Words of each `grass …`, in code blocks and in code spans, up to a comment or the next command of the shell."""
    blocks = re.findall(r"```(?:\w*)\n(.*?)```", text, re.DOTALL)
    lines = [line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(grass [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [re.split(r"\s+(?:#|>|>>|\||&&)", line)[0].split() for line in lines if line.startswith("grass ")]


def _flags(word: str) -> list[str]:
    """``-it`` is two."""
    if re.fullmatch(r"-[a-z]+", word):
        return [f"-{letter}" for letter in word[1:]]
    return [word] if re.fullmatch(r"--[a-z][a-z-]*", word) else []


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_every_command_in_the_documents_exists_with_its_options(path: Path) -> None:
    for words in commands_shown(path.read_text()):
        command: click.Command = grass
        rest = words[1:]
        context = click.Context(grass, info_name="grass")
        while isinstance(command, click.Group) and rest and not rest[0].startswith(("-", "[")):
            found = command.get_command(context, rest[0])
            assert found is not None, f"{' '.join(words)}: there is no {rest[0]!r}"
            command, rest = found, rest[1:]
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        before_dashes = rest[: rest.index("--")] if "--" in rest else rest
        flags = [flag for word in before_dashes for flag in _flags(word)]
        unknown = [flag for flag in flags if flag not in known]
        assert unknown in ([], ["--version"], ["--help"]), f"{' '.join(words)}: no {unknown}"


def test_the_python_guide_names_every_method_of_the_client_with_its_arguments() -> None:
    table = (ROOT / "docs" / "guide" / "python.md").read_text()
    shown = {
        name: [argument.split("=")[0].strip(" *") for argument in arguments.split(",") if argument]
        for name, arguments in re.findall(r"`(\w+)\(([^)`]*)\)`", table)
    }
    public = {
        name: method for name, method in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")
    }
    assert shown.keys() == public.keys()
    for name, method in public.items():
        assert shown[name] == list(inspect.signature(method).parameters)[1:], name


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    for path in folder.glob("0*.md"):
        assert f"[{path.read_text().splitlines()[0][2:]}]({path.name})" in index


def test_a_pattern_of_units_in_the_documents_matches_the_whole_names_that_systemd_compares() -> None:
    patterns = [
        (name, pattern)
        for name, path in zip(NAMES, DOCUMENTS, strict=True)
        for pattern in re.findall(r"(?:journalctl|systemctl)[^`\n]*?'?(grass-[^'`\s]*\*[^'`\s]*)", path.read_text())
    ]
    assert patterns
    assert not [(name, pattern) for name, pattern in patterns if not pattern.endswith((".service", "@*"))]
