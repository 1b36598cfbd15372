"""Texts, pictures and tables that tasks report: what is copied, what is bounded, and what is said of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import grass
from grass.store.keys import Keys
from grass.task import own_figures
from grass.wire import codec
from grass.wire.own_curves import FURTHER_TROUBLES, INDEX, MOST_TROUBLES, OWN_INDEX, OWN_NOTES, OwnIndex, notes_field
from grass.wire.own_media import MEDIA, MOST_OF_A_NAME, MediaSeries, media_field
from grass.wire.own_media import MOST_MEDIA as MOST_MEDIA_KEPT
from grass.wire.usage import OwnMedia, OwnTrouble
from master.monitor.own_curves import OwnCurves
from node.agent import own_figures as node_figures
from node.agent.own_figures import MARK, MOST_MEDIA, MOST_NAMES, OwnFigures, Reported

KEY = "train-00000001/learner.0/1"
HASH = Keys("c").job_history("train-00000001")


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output folder of a task that runs here."""
    monkeypatch.setattr(own_figures, "_numbers", {})
    for name, text in {"OUTPUT": str(tmp_path / "out"), "COMPONENT": "learner", "INDEX": "0"}.items():
        monkeypatch.setenv(f"GRASS_{name}", text)
    return tmp_path / "out" / "reported" / "learner.0"


def told(text: str) -> Reported:
    figures = OwnFigures()
    figures.found(KEY, text, 5.0)
    return figures.drain()


def test_a_text_a_picture_and_a_figure_are_reported_together(
    output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plot.PNG").write_bytes(b"picture")
    grass.report(step=7, loss=0.5, sample="a=1\nb ☃\ud800", **{"val/plot": tmp_path / "plot.PNG"})
    reported = told(capfd.readouterr().out)
    assert [(point.name, point.step, point.value) for point in reported.points] == [("loss", 7, 0.5)]
    assert reported.media == (
        OwnMedia(KEY, "sample", 7, 5.0, text="a=1\nb ☃?"),
        OwnMedia(KEY, "val/plot", 7, 5.0, "picture", file="reported/learner.0/val,plot.7.png", size=7),
    )
    assert (output / "val,plot.7.png").read_bytes() == b"picture" and len(list(output.iterdir())) == 1


def test_without_a_step_they_are_numbered_and_a_step_again_replaces_a_file(
    output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    for content in ("a", "b"):
        table.write_text(content)
        grass.report(scores=table)
        grass.report(step=0.5, other=table)
    assert [each.step for each in told(capfd.readouterr().out).media] == [0, 0.5, 1, 0.5]
    kept = {each.name: each.read_text() for each in output.iterdir()}
    assert kept == {"scores.0.csv": "a", "scores.1.csv": "b", "other.0.5.csv": "b"}


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "make", "error", "said"),
    [
        ("model.bin", Path.touch, ValueError, "has no suffix of png, jpg"),
        ("none.png", lambda path: None, FileNotFoundError, "none.png"),
        ("folder.png", make_folder, ValueError, "is not a file"),
    ],
)
def test_a_path_to_nothing_that_can_be_reported_is_refused_and_nothing_is_reported(
    output: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    make: Callable[[Path], object],
    error: type[Exception],
    said: str,
) -> None:
    make(tmp_path / name)
    with pytest.raises(error, match=said):
        grass.report(step=1, loss=1, text="x", plot=tmp_path / name)
    assert capfd.readouterr().out == "" and not output.exists()


def test_a_file_that_is_too_large_is_left_out_and_said_and_the_rest_is_reported(
    output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    grass.report(step=3, loss=1, plot=huge)
    out, err = capfd.readouterr()
    reported = told(out)
    why = f"{huge}: has 1024.0 MiB, and 8 MiB of a file are kept"
    assert f"grass.report: plot: {why}; it is left out, and the program goes on" in err
    assert reported.troubles == (OwnTrouble(KEY, f"plot, step 3: {why}", 1),)
    assert len(reported.points) == 1 and reported.media == () and not list(output.iterdir())


@pytest.mark.parametrize(("files", "size"), [(own_figures.MOST_FILES - 1, 0), (1, own_figures.MOST_OF_TASK - 15)])
def test_a_task_keeps_so_many_files_and_bytes_and_a_replaced_one_counts_once(
    output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], files: int, size: int
) -> None:
    output.mkdir(parents=True)
    for at in range(files):
        with (output / f"before.{at}.png").open("wb") as file:
            file.truncate(size)
    (tmp_path / "p.png").write_bytes(b"x" * 10)
    for step in (1, 1, 2):
        grass.report(step=step, plot=tmp_path / "p.png")
    reported = told(capfd.readouterr().out)
    assert [each.step for each in reported.media] == [1, 1] and len(reported.troubles) == 1
    assert "of this task are kept already" in reported.troubles[0].text


def test_where_there_is_no_output_folder_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GRASS_OUTPUT", raising=False)
    (tmp_path / "p.png").touch()
    grass.report(step=0, plot=tmp_path / "p.png")
    assert "no output folder" in told(capfd.readouterr().out).troubles[0].text
    monkeypatch.setenv("GRASS_COMPONENT", "w")
    monkeypatch.setenv("GRASS_OUTPUT", str(tmp_path / "p.png" / "below"))
    grass.report(step=0, plot=tmp_path / "p.png")
    assert "cannot be kept: Not a directory" in told(capfd.readouterr().out).troubles[0].text


def line(*said: object) -> str:
    return f"{MARK}{json.dumps(said)}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{MARK}[\n",
        f"{MARK}[1]\n",
        line({"name": "a b", "text": "x"}),
        line({"name": "a"}),
        line({"name": "a", "file": "../../secret.png"}),
        line({"name": "a", "file": "/etc/x.png"}),
        line({"name": "a", "file": ".hidden.png"}),
        line({"name": "a", "file": "a/b.png"}),
        line({"name": "a", "file": "program.sh"}),
        f'{MARK}[{{"name": "a", "text": "x", "step": NaN}}]\n',
        f"{MARK}{'[' * 100_000}\n",
    ],
)
def test_what_a_program_prints_leads_nowhere_else(text: str) -> None:
    assert told(text) == Reported()


def test_names_and_what_waits_are_bounded_and_what_is_left_out_is_counted() -> None:
    many = told("".join(line({"name": f"n{at}", "text": "x"}) for at in range(MOST_NAMES + 3)))
    assert len(many.media) == MOST_NAMES
    assert many.troubles == (OwnTrouble(KEY, f"texts and files beyond {MOST_NAMES} names", 3),)
    figures = OwnFigures()
    figures.found(KEY, line({"name": "a", "text": "y" * 9999}) * (MOST_MEDIA + 5), 5.0)
    first = figures.drain()
    assert {len(each.text) for each in first.media} == {2_000}
    assert node_figures.MOST_SENT <= sum(len(each.text) for each in first.media) < node_figures.MOST_SENT + 2_001
    assert [trouble.count for trouble in first.troubles] == [5]
    figures.take_back(first)
    again = figures.drain()
    assert (again.media, again.troubles) == (first.media, first.troubles)
    sent = len(again.media)
    while more := figures.drain().media:
        sent += len(more)
    assert sent == MOST_MEDIA


def test_a_figure_with_a_name_too_many_is_said() -> None:
    reported = told("".join(f"{MARK}f{at}=1\n" for at in range(10_000)))
    assert reported.troubles == (OwnTrouble(KEY, f"figures beyond {MOST_NAMES} names", 10_000 - MOST_NAMES),)


def medium(step: int, name: str = "a", text: str = "x", file: str = "") -> OwnMedia:
    return OwnMedia(KEY, name, float(step), 1.0, "picture" if file else "text", "" if file else text, file)


def test_of_many_of_a_name_some_are_kept_evenly_and_always_the_newest() -> None:
    series = MediaSeries()
    for step in range(1, 1001):
        series.add(medium(step))
        assert series.kept[-1].step == step and len(series.kept) <= MOST_OF_A_NAME
    assert series.seen == 1000 and [each.number for each in series.kept[:4]] == [0, 16, 32, 48]


def test_a_file_that_was_replaced_is_listed_once() -> None:
    series = MediaSeries()
    for step, file in ((1, "a.png"), (2, "b.png"), (1, "a.png")):
        series.add(medium(step, file=file))
    assert [each.file for each in series.kept] == ["b.png", "a.png"]


def test_a_job_keeps_so_many_and_then_only_the_newest_of_a_name() -> None:
    store = {INDEX: codec.encode(OwnIndex(media=MOST_MEDIA_KEPT - 3))}
    for step in range(6):
        curves = OwnCurves(lambda key, fields: {name: store[name] for name in fields if name in store})
        curves.show(HASH, "w.0", medium(step))  # each time by a new monitor, which goes on from what is written
        store.update({str(name): str(text) for _, _, name, text in curves.operations()})
    assert [each.step for each in MEDIA.decode(store[media_field("w.0")])["a"].kept] == [0, 1, 5]
    curves.show(HASH, "w.1", medium(0, name="b"))
    store.update({str(name): str(text) for _, _, name, text in curves.operations()})
    assert OWN_INDEX.decode(store[INDEX]).media == MOST_MEDIA_KEPT and media_field("w.1") not in store
    assert OWN_NOTES.decode(store[notes_field("w.1")]).troubles == {
        "texts and files beyond those that are kept of a job": 1
    }


def test_troubles_are_counted_by_what_they_say_and_further_ones_together() -> None:
    curves = OwnCurves(lambda key, fields: {})
    for at in (*range(MOST_TROUBLES + 4), 0):
        curves.note_trouble(HASH, "w.0", f"trouble {at}", 2)
    notes = OWN_NOTES.decode({op[2]: op[3] for op in curves.operations()}[notes_field("w.0")])
    assert notes.troubles["trouble 0"] == 4 and notes.troubles[FURTHER_TROUBLES] == 8
    assert len(notes.troubles) == MOST_TROUBLES + 1
