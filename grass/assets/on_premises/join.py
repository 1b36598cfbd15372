"""Make this machine a node of a Grass cluster: install Grass, then run `grass join`.

    curl -sSf http://MASTER:51812/v1/join.py | sudo python3 - --token grass1.…
    curl -sSf http://MASTER:51812/v1/join.py | sudo python3 - FILE

It needs only Python 3.10 and Linux. It fetches the bundle of programs from the master, compares it with the digest in
the token, and installs it in its own virtual environment: /opt/grass/venv as root, ~/.grass/venv with --rootless. FILE
is a join file with the token in it. It and all other options are passed to `grass join` (see `grass join --help`). The
token is the only secret.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

OLDEST = (3, 10)
SECONDS = 30
NOT_FOUND = 404
REFUSED = 2
"""The exit code of `grass join` when nothing was changed."""
RECORDS = Path("/var/lib/grass/installed")
"""Records of what Grass created on this machine, as a node or a master."""


class Failed(Exception):
    """A failure: what went wrong and what to do, with the exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="join.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--token", help="made by `grass node token`")
    parser.add_argument("--url", help="URL of the master's API, if it differs from the one in the token")
    parser.add_argument("--bundle", help="digest of the bundle, if there is no token")
    parser.add_argument(
        "--rootless", action="store_true", help="install without root: in ~/.grass, with systemd user units"
    )
    parser.add_argument("--install-only", action="store_true", help="install Grass and do not join")
    options, rest = parser.parse_known_args(words)
    token = options.token or token_in_file(rest)
    urls, digest, secret = opened(token) if token else ([], "", "")
    urls = [options.url, *urls] if options.url else urls
    digest = options.bundle or digest
    if not urls or not digest:
        raise Failed(
            "the token is missing: neither --token nor `token:` in a join file; an administrator makes one with "
            "`grass node token`"
        )
    check_machine(options.rootless)
    folder = Path.home() / ".grass" if options.rootless else Path("/opt/grass")
    venv = folder / "venv"
    made = not folder.exists()
    if (
        secret and not RECORDS.exists() and not (folder / "nodes").exists()
    ):  # otherwise this may continue an earlier join
        check_token(urls, secret)
    with alone(folder):
        fresh = made and not any(folder.iterdir())
        if installed(venv) != digest:
            install(urls, digest, folder)
    if not options.install_only:
        program = str(venv / "bin" / "grass")
        own = ["--rootless"] if options.rootless else []
        where = [options.url] if options.url else []
        given = ["--token", options.token] if options.token else []  # otherwise it is in the file, and stays there
        words = [program, "join", *where, *given, *own, *rest]
        if not fresh:
            os.execv(program, words)
        code = ended(subprocess.Popen(words))
        if code == REFUSED and not (folder / "nodes").exists() and not RECORDS.exists():
            shutil.rmtree(folder)
            say(f"the join was refused, and Grass was not installed before: {folder} was removed again")
        sys.exit(code)


def token_in_file(words: list[str]) -> str:
    """Return the token in the join file among the arguments; empty: there is none. Grass, which reads the rest of the
    file, is not installed yet."""
    for word in words:
        if word.startswith("-") or not word.endswith((".yml", ".yaml", ".json")):
            continue
        try:
            text = Path(word).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise Failed(f"{word}: cannot be read: {error}") from None
        text = re.sub(r"(^|\s)#.*", "", text)
        if found := re.search(r"""(?m)(?:^|[{,])\s*["']?token["']?\s*:\s*["']?(grass1\.[\w=-]+)""", text):
            return found[1]
    return ""


def ended(child: subprocess.Popen[bytes]) -> int:
    """Return the child's exit code. Ctrl-C is left to the child, which receives it as well."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue


def opened(token: str) -> tuple[list[str], str, str]:
    """Decode a token into the URLs of the API, the digest of the bundle, and the secret."""
    kind, _, rest = token.strip().partition(".")
    try:
        if kind != "grass1":
            raise ValueError(kind)
        wire = json.loads(base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4)))
        urls = [str(url) for url in wire["api"]]
        if not all(url.startswith(("http://", "https://")) for url in urls):
            raise ValueError(urls)
        return urls, str(wire["bundle"]), str(wire["secret"])
    except (ValueError, KeyError, TypeError):
        raise Failed("this is not a join token (was it copied whole?); `grass node token` makes one") from None


def check_token(urls: list[str], secret: str) -> None:
    """Check the token before anything is installed. Only a digest of its secret is sent."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    for url in urls:
        try:
            with urllib.request.urlopen(f"{url}/v1/join-tokens/{digest}", timeout=SECONDS) as answer:  # noqa: S310 # see `opened`
                problem = json.load(answer)["problem"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # the next step reports the error
        if problem:
            raise Failed(f"{problem}; nothing was installed")
        return


def check_machine(rootless: bool) -> None:
    if sys.version_info < OLDEST:
        raise Failed(f"Python {sys.version.split()[0]} is too old; Grass needs {OLDEST[0]}.{OLDEST[1]} or newer")
    if not sys.platform.startswith("linux"):
        raise Failed(f"a node runs Linux; this is {sys.platform}")
    if not rootless and os.geteuid() != 0:
        raise Failed(
            "joining creates a user, services and a mount, which needs root; run it with sudo, or use --rootless"
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, so that two installations do not overwrite each other. Child processes inherit the
    lock, so that those of a killed installation are waited for as well."""
    while True:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
        os.set_inheritable(held, True)
        try:
            if taken(held, folder):
                yield
                return
        finally:
            os.close(held)


def taken(held: int, folder: Path) -> bool:
    """Lock the folder. False: the previous owner of the lock has removed the folder."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for another installation in {folder}")
        fcntl.flock(held, fcntl.LOCK_EX)
    return folder.exists() and folder.stat().st_ino == os.fstat(held).st_ino


def installed(venv: Path) -> str:
    """Return the digest of the bundle from which this environment was installed."""
    try:
        return (venv / "bundle").read_text().strip()
    except OSError:
        return ""


def install(urls: list[str], digest: str, folder: Path) -> None:
    """Install beside the present version, then switch the link, so that no partial installation is ever used."""
    venv = folder / "venvs" / digest[:16]
    venv.parent.mkdir(mode=0o755, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".bundle-") as name:
        tar = Path(name) / "bundle.tar"
        fetch(urls, digest, tar)
        say(f"installing Grass in {folder}")
        unpack(tar, Path(name), venv)
    (venv / "bundle").write_text(digest + "\n")
    link = folder / "venv.new"
    link.unlink(missing_ok=True)
    link.symlink_to(venv)
    link.replace(folder / "venv")


def fetch(urls: list[str], digest: str, target: Path) -> None:
    failures = []
    for url in urls:
        say(f"fetching Grass from {url}")
        try:
            with urllib.request.urlopen(f"{url}/v1/bundle/{digest}", timeout=SECONDS) as source:  # noqa: S310 # see `opened`
                found = copy(source, target)
        except OSError as error:
            if getattr(error, "code", None) == NOT_FOUND:
                raise Failed(
                    f"the master at {url} has another bundle than the one in the token, because it was set up again; "
                    "`grass node token` makes a new token"
                ) from None
            failures.append(f"{url}: {getattr(error, 'reason', error)}")
            continue
        if found != digest:
            raise Failed(f"{url} sent another bundle than the one in the token ({found} instead of {digest})", 4)
        return
    raise Failed("no master answers; does a firewall let this machine through?\n  " + "\n  ".join(failures), 3)


def copy(source: IO[bytes], target: Path) -> str:
    """Copy, and return the SHA-256 of the content."""
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while piece := source.read(1 << 20):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def unpack(tar: Path, folder: Path, venv: Path) -> None:
    """Run the program of the bundle that installs it."""
    program = folder / "install.py"
    try:
        with tarfile.open(tar, "r:") as archive, archive.extractfile("install.py") as source:  # type: ignore[union-attr]
            copy(source, program)
    except (KeyError, tarfile.TarError):
        raise Failed("this bundle cannot install itself: the master has another version of Grass") from None
    done = subprocess.run(
        [sys.executable, str(program), str(tar), str(venv), "node"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        close_fds=False,  # the child inherits the lock
    )
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode == REFUSED:
        raise Failed(said, REFUSED)
    if done.returncode:
        raise Failed(f"the installation ended with code {done.returncode}:\n{said}", 1)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(sys.argv[1:])
    except Failed as failure:
        say(f"error: {failure}")
        sys.exit(failure.code)
