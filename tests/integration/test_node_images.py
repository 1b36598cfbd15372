"""Images of the share on their way into a real engine: loaded once, with progress, and removed when the disk fills."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from grass.errors import InputError, NotFoundError
from grass.system.entropy import run_id
from node.runtime.docker.engine import Engine
from node.runtime.docker.images import Images
from node.runtime.protocol import Stop
from tests.support.docker_run import ONE, DockerRun
from tests.support.engine import image_files, require_engine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


class Share:
    """``push`` puts an image of the test's own into it, as `grass image push` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs").mkdir(parents=True)
        self.index: dict[str, dict[str, Any]] = {}
        self.name = run_id("grass-test-image")

    def push(self, tag: str, colour: str = "green") -> str:
        name = f"{self.name}:{tag}"
        layer = image_files()
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{self._blob(layer)}"]}
        plan = {"Env": ["PATH=/bin", f"COLOUR={colour}", f"TAG={tag}"]}
        config = {"architecture": "amd64", "os": "linux", "config": plan, "rootfs": rootfs}
        digest = self._blob(json.dumps(config).encode())
        layers = [each.removeprefix("sha256:") for each in rootfs["diff_ids"]]
        self.index[name] = {"id": f"sha256:{digest}", "config": digest, "layers": layers}
        (self.folder / "index.json").write_text(json.dumps(self.index))
        return name

    def _blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / digest).write_bytes(data)
        return digest


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    require_engine()
    made = Share(tmp_path / "images")
    yield made
    client = docker.APIClient(version="auto")
    for image in client.images(made.name):
        client.remove_image(image["Id"], force=True)
    client.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


def test_a_container_gets_its_image_from_the_share_and_says_how_far_it_is(share: Share, engine: Engine) -> None:
    name = share.push("1")
    provider = Images(engine, share.folder, share.folder.parent / "state.json")
    with DockerRun(images=provider) as run:
        ended = run.run("echo $COLOUR", image=name)
        assert (ended.code, run.stdout()) == (0, "green\n")
        assert {waiting.key for waiting in run.waiting} == {ONE}
        reason = run.waiting[0].reason
        assert reason.code == "image" and f"loading image {name} (" in reason.message
        run.waiting.clear()
        assert run.run("true", "j-1/c.1/1", image=name).code == 0 and not run.waiting


def test_what_was_pushed_anew_under_the_same_name_is_loaded_anew(share: Share, engine: Engine) -> None:
    name = share.push("1")
    provider = Images(engine, share.folder, share.folder.parent / "state.json")
    with DockerRun(images=provider) as run:
        run.run("echo $COLOUR", image=name)
        share.push("1", colour="blue")
        run.run("echo $COLOUR", "j-1/c.1/1", image=name)
        assert run.stdout("j-1/c.1/1") == "blue\n"


def test_an_image_that_somebody_replaced_in_the_share_is_not_loaded(share: Share, engine: Engine) -> None:
    name = share.push("1")
    pushed = json.loads((share.folder / "index.json").read_text())[name]["config"]
    state = share.folder.parent / "state.json"
    provider = Images(engine, share.folder, state, look_again=(), signed_off={name: pushed}.get)
    share.push("1", colour="evil")
    with pytest.raises(InputError, match="is not the one that was pushed"):
        provider.prepare(name, lambda _: None)
    index = json.loads((share.folder / "index.json").read_text())
    index[name]["config"], index[name]["id"] = pushed, f"sha256:{pushed}"
    (share.folder / "index.json").write_text(json.dumps(index))
    (share.folder / "blobs" / pushed).write_text("{}")
    with pytest.raises(InputError, match="is not the one that was pushed"):
        provider.prepare(name, lambda _: None)
    share.push("1")
    provider.prepare(name, lambda _: None)
    assert engine.image(name)["Id"]


def test_an_image_that_the_share_shows_only_a_moment_later_is_found(share: Share, engine: Engine) -> None:
    share.push("other")
    provider = Images(engine, share.folder, share.folder.parent / "state.json")
    late = threading.Timer(0.3, share.push, ("late",))
    late.start()
    name = f"{share.name}:late"
    provider.prepare(name, lambda _: None)
    late.join()
    assert engine.image(name)["Id"]


def test_an_image_is_loaded_once_however_many_ask(
    share: Share, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    name = share.push("1")
    provider = Images(engine, share.folder, share.folder.parent / "state.json")
    with caplog.at_level("INFO"):
        threads = [threading.Thread(target=provider.prepare, args=(name, lambda _: None)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert caplog.text.count(f"loaded image {name}") == 1


def test_on_a_full_disk_the_image_that_was_not_used_for_longest_goes_and_those_in_use_stay(
    share: Share, engine: Engine
) -> None:
    usages = itertools.repeat(0.5)
    state = share.folder.parent / "state.json"
    provider = Images(engine, share.folder, state, lambda: next(usages), used_every=0.0)
    names = [share.push(str(number)) for number in range(4)]
    for name in names[:3]:
        provider.prepare(name, lambda _: None)
    provider.prepare(names[1], lambda _: None)
    held = engine.create(f"{share.name}.holder", {"Image": names[0], "Cmd": ["true"]})
    try:
        usages = iter([0.9, 0.9, 0.5])
        provider.prepare(names[3], lambda _: None)
        with pytest.raises(NotFoundError):
            engine.image(names[2])  # 0 is in use, and 1 was used later
        assert all(engine.image(name) for name in (names[0], names[1], names[3]))
    finally:
        engine.remove(held)


def test_an_image_that_was_removed_after_it_was_prepared_is_loaded_again(share: Share, engine: Engine) -> None:
    name = share.push("1")
    provider = Images(engine, share.folder, share.folder.parent / "state.json", look_again=())
    with DockerRun(images=provider) as run:
        assert run.run("true", image=name).code == 0
        run.runtime.forget([ONE])
        wait_until(lambda: not run.containers())
        engine.remove_image(name)
        assert run.run("true", "j-1/c.1/1", image=name).code == 0
        ended = run.run("true", "j-1/c.2/1", image=f"{share.name}:none")
        assert (ended.code, "grass image push" in ended.reason.message) == (127, True)


@pytest.mark.parametrize("ill", [lambda path: path.symlink_to(path.name), Path.mkdir], ids=["no look", "no read"])
@pytest.mark.parametrize("which", ["index", "config", "layer"])
def test_a_share_that_fails_is_said_and_asked_again_and_fails_no_task(
    which: str, ill: Callable[[Path], object], share: Share, engine: Engine
) -> None:
    name = share.push("1")
    blobs = {"config": share.index[name]["config"], "layer": share.index[name]["layers"][0]}
    path = share.folder / "index.json" if which == "index" else share.folder / "blobs" / blobs[which]
    sound = path.rename(share.folder / "sound")
    ill(path)
    provider = Images(engine, share.folder, share.folder.parent / "state.json")
    with DockerRun(images=provider) as run:
        run.start("echo it runs", image=name)
        run.wait(lambda: len([each for each in run.waiting if "cannot be read" in each.reason.message]) >= 2)
        assert run.lists == 1, "the engine is not away"
        assert ONE not in run.known
        path.unlink() if path.is_symlink() else path.rmdir()
        sound.rename(path)
        assert run.ended().code == 0 and run.stdout() == "it runs\n"


def test_a_task_that_waits_for_its_share_can_be_stopped(share: Share, engine: Engine) -> None:
    name = share.push("1")
    (share.folder / "index.json").unlink()
    provider = Images(engine, share.folder, share.folder.parent / "state.json", share_is_mounted=lambda: False)
    with DockerRun(images=provider) as run:
        run.start("true", image=name)
        run.wait(lambda: run.waiting)
        assert "the share is not mounted" in run.waiting[0].reason.message
        run.runtime.stop([Stop(ONE, 5.0, None)])
        ended = run.ended()
        assert (ended.pid, ended.code) == (None, None) and not run.containers()


def test_what_is_damaged_or_missing_is_said(share: Share, engine: Engine) -> None:
    name = share.push("1")
    provider = Images(engine, share.folder, share.folder.parent / "state.json", look_again=())
    provider.prepare("only-the-engine-has-it", lambda _: None)
    assert "grass image push other:1" in str(provider.missing("other:1"))
    for blob in (share.folder / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(InputError, match="missing in the share"):
        provider.prepare(name, lambda _: None)
    layers = share.index[name].pop("layers")
    for damaged in (
        {**share.index[name], "layers": ["../../etc/passwd"]},
        {"layers": layers},
        share.index[name],
        5,
        [3],
    ):
        (share.folder / "index.json").write_text(json.dumps({name: damaged}))
        with pytest.raises(InputError, match="damaged"):
            provider.prepare(name, lambda _: None)
    for damaged in ("{", "[]", "\0\xff"):
        (share.folder / "index.json").write_bytes(damaged.encode("latin-1"))
        with pytest.raises(InputError, match="damaged"):
            provider.prepare(name, lambda _: None)
