"""What root does with the file of a notice: a stolen node-agent may have written it, or put anything in its place."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from joserfc.jwk import RSAKey

from grass.api.notice import LONGEST, ForgedNoticeError, OldNoticeError, sign
from grass.errors import ConflictError, InputError, NotAllowedError, UndecodableError
from grass.hosts import LocalHost
from grass.provision.on_premises.follow_on_host import check_of_root, follow_heard, take
from grass.provision.on_premises.hearing import is_news
from grass.provision.on_premises.join_record import Own
from grass.provision.on_premises.node_paths import NodePaths, of_user
from grass.provision.on_premises.pinned import Pinned
from grass.provision.on_premises.record import Made
from grass.wire.codec import builtins, encode
from grass.wire.notice import Notice
from node.agent.master_search import QUIET, pause
from tests.support.rsa_keys import public_jwk, raw_key

KEY, HERE, THERE = public_jwk("master")["kid"], "http://127.0.0.1:1", "http://127.0.0.1:2"


def notice(moves: int, url: str = THERE, *, cluster: str = "lab", key: str = "master") -> str:
    return sign(Notice(cluster, (url,), 0, moves), RSAKey(raw_key(key), raw_key(key)))


@pytest.fixture
def node(tmp_path: Path) -> NodePaths:
    """A node without root, whose record says nothing that could be believed: its key is another one."""
    paths = of_user("lab", "me", "us", str(tmp_path), str(tmp_path / "run"))
    Path(paths.home).mkdir(parents=True)
    Path(paths.heard).parent.mkdir(parents=True)
    own = Own(name="n1", urls=[HERE], key=public_jwk("ann")["kid"])
    Path(paths.home, "record.json").write_bytes(Made(details=builtins(own)).text())
    Path(paths.pinned).write_text(encode(Pinned(key=KEY, urls=(HERE,), number=(0, 1))))
    return paths


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (notice(2, key="ann"), ForgedNoticeError),
        (notice(2, cluster="other"), ForgedNoticeError),
        (notice(0), OldNoticeError),
        (notice(1), ConflictError),
        ("x" * (LONGEST + 5), InputError),
        ("", InputError),
    ],
)
def test_root_follows_no_notice_that_its_own_key_did_not_sign_or_that_is_no_news(
    node: NodePaths, text: str, error: type[Exception]
) -> None:
    Path(node.heard).write_text(text)
    with pytest.raises(error):
        follow_heard(LocalHost(), "lab", node)
    assert not os.path.lexists(node.heard), "the unit would start again at once"


def test_a_notice_of_where_the_master_is_changes_nothing(node: NodePaths) -> None:
    Path(node.heard).write_text(notice(1, HERE))
    done = follow_heard(LocalHost(), "lab", node)
    assert (done.node, done.url, done.view) == ("n1", HERE, None)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_whatever_is_in_the_place_of_the_notice_is_removed_and_nothing_else(
    node: NodePaths, tmp_path: Path, kind: str
) -> None:
    heard, secret = Path(node.heard), tmp_path / "secret"
    secret.write_text("mine")
    if kind == "link":
        heard.symlink_to(secret)
    elif kind == "folder":
        (heard / "in").mkdir(parents=True)
    else:
        os.mkfifo(heard)
    take(LocalHost(), node.heard, (), 0.2)
    assert not os.path.lexists(heard) and secret.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read with the rights of another")
def test_root_reads_the_notice_with_the_rights_of_its_writer() -> None:
    with TemporaryDirectory() as name:
        theirs, secret, heard = Path(name, "theirs"), Path(name, "secret"), Path(name, "theirs", "heard-notice")
        secret.write_text("mine")
        secret.chmod(0o600)
        theirs.mkdir()
        Path(name).chmod(0o755)
        os.chown(theirs, 65534, 65534)
        heard.symlink_to(secret)
        user = ("setpriv", "--reuid=65534", "--clear-groups", "--")
        assert take(LocalHost(), str(heard), user) == ""
        assert not os.path.lexists(heard) and secret.read_text() == "mine"


def test_what_another_user_put_in_the_place_of_roots_record_is_refused(tmp_path: Path) -> None:
    theirs, link = tmp_path / "record", tmp_path / "link"
    theirs.touch()
    link.symlink_to("/etc/passwd")
    check_of_root(LocalHost(), ("/etc/passwd",))
    if os.geteuid() == 0:
        os.chown(theirs, 65534, 65534)
    for path in (theirs, link):
        with pytest.raises(NotAllowedError, match=f"{path}: is not root's"):
            check_of_root(LocalHost(), ("/etc/passwd", str(path)))


def test_what_root_knows_of_its_master_has_to_be_whole(node: NodePaths) -> None:
    Path(node.heard).write_text(notice(2))
    Path(node.pinned).write_text("{}")
    with pytest.raises(UndecodableError):
        follow_heard(LocalHost(), "lab", node)


def test_only_a_later_master_at_another_address_is_news() -> None:
    pinned = Pinned(key=KEY, urls=(HERE,), number=(1, 2))
    assert is_news(Notice("lab", (THERE,), 1, 3), pinned) and is_news(Notice("lab", (THERE,), 2, 0), pinned)
    assert not is_news(Notice("lab", (THERE,), 1, 2), pinned), "root would refuse it"
    assert not is_news(Notice("lab", (HERE,), 2, 0), pinned), "redis is on its way there"


def test_a_master_that_is_away_for_long_is_asked_for_less_often() -> None:
    assert [pause(silent) for silent in (0, QUIET, 100, 300, 10_000)] == [10, 10, 10, 30, 60]
