"""`grass data push` over SSH against rsync and scp to the same sshd: one large file, and many small ones.

The sshd runs on this machine, with an authorized key as `grass create` sets it up; the peers use the same key material
without the forced command. Each sends to an empty folder, in an order that is drawn anew for each round.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.files_server import files_server
from tests.support.sshd import SshServer, ssh_server


def make_data(folder: Path, small: int, large: int) -> dict[str, Path]:
    """``small`` files of 4 KiB in 100 folders, and one of ``large`` MiB."""
    many = folder / "many"
    for number in range(100):
        (many / str(number)).mkdir(parents=True)
    for number in range(small):
        (many / str(number % 100) / f"{number}.bin").write_bytes(os.urandom(4096))
    one = folder / "one"
    one.mkdir()
    with (one / "large.bin").open("wb") as file:
        for _ in range(large):
            file.write(os.urandom(1 << 20))
    return {"many": many, "one": one}


def timed(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def commands(source: Path, target: Path, plain: SshServer) -> dict[str, list[str]]:
    """The three ways to the same empty folder."""
    ssh = ["-i", str(plain.key), "-o", f"UserKnownHostsFile={plain.known_hosts}", "-o", "BatchMode=yes", "-F", "none"]
    where = f"{plain.user}@127.0.0.1"
    grass = Path(sys.executable).with_name("grass")
    return {
        "Grass": [str(grass), "data", "push", str(source), target.name, "--cluster", "bench"],
        "rsync": [
            "rsync",
            "-a",
            "-e",
            shlex.join(["ssh", "-p", str(plain.port), *ssh]),
            f"{source}/",
            f"{where}:{target}/",
        ],
        "scp": ["scp", "-q", "-r", "-P", str(plain.port), *ssh, str(source), f"{where}:{target}"],
    }


def main() -> None:
    parser = figures.arguments(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--mebibytes", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-data-") as scratch:
        folder = Path(scratch)
        data = make_data(folder / "data", options.files, options.mebibytes)
        os.environ["GRASS_HOME"] = str(folder / "home")
        client = folder / "home" / "clusters" / "bench" / "client"
        client.mkdir(parents=True)
        for name in ("own", "plain"):
            (folder / name).mkdir()
        with files_server(folder / "own") as own, ssh_server(folder / "plain") as plain:
            own.access("root").access.save(client)
            for kind, source in data.items():
                measure(options, kind, source, own.share, plain)


def measure(options: figures.argparse.Namespace, kind: str, source: Path, share: Path, plain: SshServer) -> None:
    seconds: dict[str, list[float]] = {"Grass": [], "rsync": [], "scp": []}
    for round_number in range(1, options.rounds + 1):
        for name, samples in random.sample(list(seconds.items()), len(seconds)):
            shutil.rmtree(share, ignore_errors=True)
            share.mkdir()
            target = share / "target"
            os.sync()
            samples.append(timed(commands(source, target, plain)[name]))
        figures.progress(
            f"{kind}, round {round_number}: " + ", ".join(f"{n} {s[-1]:.2f} s" for n, s in seconds.items())
        )
    size = options.mebibytes if kind == "one" else options.files
    unit = "MiB/s" if kind == "one" else "files/s"
    found = {name: figures.Figure(name, [size / each for each in samples], unit) for name, samples in seconds.items()}
    title = f"push of one file of {size} MiB" if kind == "one" else f"push of {size} files of 4 KiB"
    ratios = [figures.ratio(found["Grass"], found[peer]) for peer in ("rsync", "scp")]
    figures.report(options, title, [*found.values(), *ratios], "at least 0.8 × rsync and scp")


if __name__ == "__main__":
    main()
