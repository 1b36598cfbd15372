"""Event files of TensorBoard: what is read of them, which task wrote one, and what is said of the rest."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grass.wire.usage import OwnTrouble
from node.agent import event_files
from node.agent.event_file import MOST_RECORD, DamagedError, Record, Scalar, masked_crc, records, scalars
from node.agent.event_files import MOST_ATTEMPTS, MOST_ENTRIES, MOST_FILES, SETTLED, EventFiles
from node.agent.own_figures import MOST_FROM_FILES, MOST_NAMES, OwnFigures
from node.runtime.protocol import Observed
from tests.support import event_file as writer
from tests.support.event_file import event, part, record, scalar
from tests.support.examples import examples

JOB = "sweep-0000000a"
BEGUN = 1_700_000_000


def name(created: float, host: str = "", pid: int = 0) -> str:
    """Return the name of a file that was created so many seconds after ``BEGUN``, by default on this host."""
    return writer.name(BEGUN + created, host, pid)


def message(content: bytes) -> bytes:
    [found] = records(content, len(content))
    assert found.message is not None
    return found.message


def test_the_checksum_is_that_of_tfrecord() -> None:
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF  # CRC-32C of these digits, by its definition
    assert masked_crc(b"123456789") == (rotated + 0xA282EAD8) & 0xFFFFFFFF


def test_a_scalar_is_a_simple_value_or_a_tensor_with_one_number() -> None:
    assert scalars(message(scalar("loss", 0.5, 7))) == [Scalar("loss", 7, 0.5, 1e9)]
    for kind, field, raw in ((1, 4, struct.pack("<f", 2)), (1, 5, struct.pack("<f", 2)), (2, 6, struct.pack("<d", 2))):
        tensor = bytes([8, kind]) + part(field, raw)
        assert scalars(event(part(1, b"loss") + part(8, tensor), 7)) == [Scalar("loss", 7, 2.0, 1e9)]


@pytest.mark.parametrize(
    "value",
    [
        part(1, b"text") + part(8, bytes([8, 7]) + part(8, b"hello")),
        part(1, b"picture") + part(4, b"png"),
        part(1, b"vector") + part(8, bytes([8, 1]) + part(4, struct.pack("<ff", 1, 2))),
        b"\x15" + struct.pack("<f", 1),
    ],
)
def test_what_is_no_scalar_is_left_out(value: bytes) -> None:
    assert scalars(event(value, 1)) == []


@examples(200)
@given(st.binary(max_size=60))
def test_no_message_breaks_the_reader(content: bytes) -> None:
    for each in (content, event(content, 1), event(part(1, b"loss") + content, 1)):
        try:
            scalars(each)
        except DamagedError:
            continue


def test_records_are_read_up_to_the_last_whole_one_and_large_ones_are_skipped() -> None:
    first, large, last = scalar("a", 1, 1), record(b"x" * (MOST_RECORD + 1)), scalar("b", 2, 2)
    content = first + large + last
    found = list(records(content[:-1], len(content) - 1))
    assert [each.message is None for each in found] == [False, True] and found[1].end == len(first + large)
    begun = first + large[:100]
    assert list(records(begun, len(content)))[-1] == Record(None, len(first + large)), "it need not be read"
    with pytest.raises(DamagedError, match="length"):
        list(records(first + b"\0" * 16, 1 << 40))


class Node:
    """A node with a share."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own = folder, OwnFigures()
        self.output = folder / "jobs" / JOB
        self.output.mkdir(parents=True)
        self.begin()

    def begin(self) -> None:
        self.files = EventFiles(self.folder, self.folder / "state.json", self.own)

    def run(self, task: str, pid: int = 1, attempt: int = 1, since: float = 1000.0, image: str | None = None) -> str:
        key = f"{JOB}/{task}/{attempt}"
        nothing = (None, None, None, None, None)
        self.files.started(Observed(key, pid, BEGUN + since, 0.0, False, *nothing, image=image))
        return key

    def write(self, path: str, *content: bytes) -> Path:
        file = self.output / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as opened:
            opened.write(b"".join(content))
        return file

    def found(self) -> dict[str, dict[str, list[float]]]:
        """Task → figure → values."""
        seen: dict[str, dict[str, list[float]]] = {}
        for point in self.own.drain().points:
            seen.setdefault(point.key.split("/")[1], {}).setdefault(point.name, []).append(point.value)
        return seen

    def end(self, *keys: str, at: float = 2000.0) -> None:
        for key in keys:
            self.files._attempts[key].ended = BEGUN + at

    def look(self, now: float) -> bool:
        return self.files.look(BEGUN + now)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_file_in_the_folder_of_a_task_is_of_this_task(node: Node) -> None:
    node.run("main.0"), node.run("main.1")
    node.write(f"main.0/{name(1001, 'elsewhere')}", scalar("loss", 1, 0))
    node.write(f"runs/sweep.main.1/{name(1001)}", scalar("loss", 2, 0))
    node.look(1002)
    assert node.found() == {"main.0": {"loss": [1]}, "main.1": {"loss": [2]}}


def test_in_one_folder_the_name_of_a_file_says_which_process_wrote_it(node: Node) -> None:
    one, other = node.run("main.0", pid=11), node.run("main.1", pid=12)
    node.files.seen({77: other, 11: one})
    node.write(name(1001, pid=11), scalar("loss", 1, 0))
    node.write(name(1001, pid=77), scalar("loss", 2, 0))
    node.write(name(1001, "elsewhere", 11), scalar("loss", 3, 0))
    node.look(1002)
    assert node.found() == {"main.0": {"loss": [1]}, "main.1": {"loss": [2]}}


def test_a_process_that_has_a_file_open_wrote_it_whatever_its_name_is_in_a_container(node: Node) -> None:
    node.run("main.0", image="sha256:1"), node.run("main.1", image="sha256:1")
    file = node.write(name(1001, "f00d", 1), scalar("loss", 1, 0))
    node.look(1002)
    assert node.found() == {}
    node.files.seen({os.getpid(): f"{JOB}/main.1/1"})
    with file.open("ab"):
        node.look(1003)
    node.write(file.name, scalar("loss", 2, 1))
    node.look(1004)
    assert node.found() == {"main.1": {"loss": [1, 2]}}


def test_the_number_of_a_process_in_a_container_is_not_that_of_another_task(node: Node) -> None:
    node.run("main.0", pid=900, image="sha256:1"), node.run("main.1", pid=901, image="sha256:1")
    node.write(name(1001, pid=901), scalar("loss", 1, 0))
    node.look(1002)
    assert node.found() == {}


def test_the_only_attempt_of_a_job_here_wrote_what_was_written_here_and_none_what_is_older(node: Node) -> None:
    node.run("main.0", pid=11)
    node.write(name(1001, pid=4711), scalar("loss", 1, 0))
    node.write(name(900, pid=11), scalar("loss", 2, 0))
    node.write(name(1001, "elsewhere"), scalar("loss", 3, 0))
    node.look(1002)
    assert node.found() == {"main.0": {"loss": [1]}}


def test_a_second_attempt_has_its_own_files(node: Node) -> None:
    first = node.run("main.0")
    node.write(f"main.0/{name(1001)}", scalar("loss", 1, 0))
    node.look(1002)
    node.end(first, at=1010)
    second = node.run("main.0", attempt=2, since=1020)
    node.write(f"main.0/{name(1021)}", scalar("loss", 2, 0))
    node.look(1022)
    assert {point.key: point.value for point in node.own.drain().points} == {first: 1, second: 2}


def test_what_nobody_can_tell_is_said_once_the_job_is_over_here(node: Node) -> None:
    keys = node.run("main.0", image="i"), node.run("main.1", image="i")
    file = node.write(name(1001, pid=1), scalar("loss", 1, 0))
    node.write(name(1001, "elsewhere", 1), scalar("loss", 1, 0))
    node.look(1002)
    assert node.own.drain().troubles == ()
    node.end(*keys)
    node.look(2000 + SETTLED)
    said = f"jobs/{JOB}/{file.name}: it cannot be known which task wrote it; write into $GRASS_OUTPUT/$GRASS_TASK"
    assert node.own.drain().troubles == (OwnTrouble(keys[0], said, 1),)
    assert not node.files._attempts


def test_what_has_been_read_is_not_read_again_by_the_next_agent(node: Node) -> None:
    node.run("main.0")
    file = node.write(name(1001), scalar("loss", 1, 0), scalar("loss", 2, 1)[:-3])
    node.look(1002)
    node.begin()
    node.files._files = event_files._STATE.decode((node.folder / "state.json").read_bytes())
    key = node.run("main.0")
    file.write_bytes(file.read_bytes() + scalar("loss", 2, 1)[-3:])
    node.look(1003)
    assert node.found() == {"main.0": {"loss": [1, 2]}}
    node.end(key)
    node.look(2000 + SETTLED)
    assert (node.folder / "state.json").read_text() == "{}"


def test_a_file_that_ends_in_a_record_and_one_that_is_damaged_are_said_and_read_so_far(node: Node) -> None:
    key = node.run("main.0")
    whole = scalar("loss", 1, 0)
    node.write(f"a/{name(1001)}", whole, whole[:-1])
    node.write(f"b/{name(1002)}", scalar("acc", 1, 0), b"\0" * 40)
    with (node.output / name(1003)).open("wb") as huge:
        huge.truncate(10 << 30)
    node.look(1004)
    node.end(key)
    node.look(2000 + SETTLED)
    reported = node.own.drain()
    assert {point.name for point in reported.points} == {"loss", "b/acc"}
    why = {trouble.text.split("/")[2]: trouble.text.partition(": ")[2] for trouble in reported.troubles}
    assert why["a"] == f"it ends in the middle of a record; what comes after {len(whole)} bytes is not read"
    assert why["b"].startswith("the length of a record is damaged") and len(why) == 3


def test_tags_of_a_second_folder_get_its_name_in_front_and_other_letters_are_replaced(node: Node) -> None:
    node.run("main.0")
    node.write(f"train/{name(1001)}", scalar("epoch loss (avg)", 1, 0))
    node.write(f"train/{name(1001)}.v2", scalar("9", 4, 0))
    node.write(f"validation/{name(1001)}", scalar("epoch loss (avg)", 2, 0), scalar("9", 3, 0))
    node.look(1002)
    assert node.found() == {
        "main.0": {"epoch_loss_avg_": [1], "_9": [4], "validation/epoch_loss_avg_": [2], "validation/9": [3]}
    }


def test_the_folder_of_a_task_is_in_no_name(node: Node) -> None:
    node.run("main.0")
    node.write(f"train/main.0/{name(1001)}", scalar("loss", 1, 0))
    node.write(f"valid/main.0/{name(1001)}", scalar("loss", 2, 0))
    node.look(1002)
    assert node.found() == {"main.0": {"loss": [1], "valid/loss": [2]}}


def test_what_a_task_reports_itself_counts_more_than_the_same_name_in_a_file(node: Node) -> None:
    key = node.run("main.0")
    node.own.found(key, "GRASS_METRIC loss=1 step=0\n", 5.0)
    node.write(name(1001), scalar("loss", 9, 0), scalar("acc", 2, 0))
    node.look(1002)
    node.write(name(1001), scalar("acc", 3, 1))
    node.look(1003)
    assert node.found() == {"main.0": {"loss": [1], "acc": [2, 3]}}


def test_too_many_names_files_and_scalars_are_bounded_and_said(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    key = node.run("main.0")
    node.write(name(1001), *(scalar(f"n{at}", 1, 0) for at in range(10_000)))
    for at in range(MOST_FILES):
        node.write(f"more{at}/{name(1001)}", scalar("n0", 1, 0))
    while node.look(1002):
        pass
    reported = node.own.drain()
    assert len({point.name for point in reported.points}) == MOST_NAMES
    assert {trouble.text for trouble in reported.troubles} == {
        f"figures beyond {MOST_NAMES} names",
        f"event files beyond {MOST_FILES}",
    }
    file = node.files._files[f"jobs/{JOB}/{name(1001)}"]
    file.read = event_files.MOST_READ
    node.write(name(1001), scalar("n0", 1, 1), scalar("n0", 1, 2))
    node.look(1003)
    node.look(1004)
    assert [trouble.text for trouble in node.own.drain().troubles] == [
        f"jobs/{JOB}/{name(1001)}: scalars behind the first 16 MiB"
    ]
    assert file.done and key == file.key


def test_a_folder_with_very_many_files_is_looked_at_in_part_and_that_is_said(node: Node) -> None:
    key = node.run("main.0")
    for at in range(MOST_ENTRIES + 1):
        (node.output / f"{at}.txt").touch()
    node.look(1002)
    node.look(1003)
    said = "event files in an output folder with more than 10,000 files"
    assert node.own.drain().troubles == (OwnTrouble(key, said, 1),)


def test_a_link_leads_nowhere_and_a_job_without_such_files_leaves_nothing(node: Node, tmp_path: Path) -> None:
    node.run("main.0")
    node.look(1002)
    assert not (node.folder / "state.json").exists()
    outside = tmp_path / "outside"
    outside.write_bytes(scalar("loss", 1, 0))
    (node.output / name(1001)).symlink_to(outside)
    (node.output / "below").symlink_to(tmp_path)
    node.look(1003)
    assert node.found() == {}


def test_of_an_array_without_an_end_only_the_newest_attempts_are_remembered(node: Node) -> None:
    for at in range(MOST_ATTEMPTS + 5):
        node.end(node.run(f"main.{at}", since=at), at=at + 1)
    last = node.run("main.9999", pid=7)
    node.look(1500)
    assert len(node.files._attempts) == MOST_ATTEMPTS and f"{JOB}/main.6/1" in node.files._attempts
    node.end(last)
    node.look(2000 + SETTLED)
    assert not node.files._attempts


def test_a_run_that_is_read_at_once_keeps_its_course(node: Node) -> None:
    node.run("main.0")
    node.write(name(1001), *(scalar("loss", at, at) for at in range(1_000)))
    node.look(1002)
    values = node.found()["main.0"]["loss"]
    assert values[0] == 0 and values[-1] == 999 and MOST_FROM_FILES / 2 < len(values) <= MOST_FROM_FILES + 3


def test_a_file_that_grows_by_much_is_read_in_parts(node: Node) -> None:
    node.run("main.0")
    one = scalar("loss", 1, 0)
    node.write(name(1001), one * (event_files.AT_ONCE // len(one) + 10))
    assert node.look(1002) and not node.look(1003)
    assert not node.look(1004)
