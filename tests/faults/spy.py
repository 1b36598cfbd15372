"""An isolated user who looks for what belongs to another one, before, during and after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grass.api.client import Client
from grass.errors import NotAllowedError, NotFoundError
from tests.faults import attackers
from tests.long.kill_matrix import patiently, whole_log
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.faults.host_bed import HostBed

NEEDLE = "PREY"
HOME = "/var/lib/grass/clusters/faults"
PLACES = (
    "$GRASS_DATA/data/*/secret $GRASS_DATA/jobs/*/secret $GRASS_DATA/logs/*/* "
    f"{HOME}/node/attempts/*/*/secret {HOME}/node/attempts/*/* /proc/[0-9]*/environ /tmp/secret /dev/shm/secret"
)
LOOK = f"cat {PLACES} 2>/dev/null | grep -a -o '{NEEDLE[:1]}[R]{NEEDLE[2:]}-[0-9]*' | sort -u"
"""The pattern does not match its own text, which is in the command line of the spy."""
_SOCKETS = "/run/docker.sock /run/grass/faults/shepherd.sock"
SECRETS = f"{HOME}/secrets.json {HOME}/tls/host.pem /etc/grass/faults.share.conf {_SOCKETS}"
RIGHTS = f"for each in {SECRETS}; do [ -e $each ] && echo {NEEDLE}-sees-$each; done"


class Spy:
    """``other``: a client of the second user. ``begin``: before the fault. ``end``: after it; what was seen."""

    def __init__(self, bed: HostBed, other: Client, number: int) -> None:
        self.bed, self.other, self.number = bed, other, number

    def begin(self) -> None:
        name, user = f"victim-{self.number}", self.bed.client.status().user
        kept = " ".join(
            (
                "$HOME/secret",
                "$GRASS_OUTPUT/secret",
                f"$GRASS_DATA/data/{user}/secret",
                "/tmp/secret",
                "/dev/shm/secret",
            )
        )
        waits = f"until [ -e {self.bed.marks}/enough-{name} ]; do sleep 0.2; done"
        part = self._part(
            f"umask 077; echo $SECRET; for each in {kept}; do echo $SECRET > $each; done; {LOOK}; {waits}"
        )
        self.bed.start(name, t={**part, "env": {"SECRET": f"{NEEDLE}-{self.number}"}})
        seen = [f"{NEEDLE}-{self.number}"] * 2  # it prints its secret, and finds it: what looks can see
        wait_until(lambda: _printed(self.bed.client, name)[:2] == seen, 60, "the victim's own look", 0.2)
        rounds = (
            f"until [ -e {self.bed.marks}/enough-spy-{self.number} ]; do {LOOK}; {RIGHTS}; n=$((n+1)); sleep 0.3; done"
        )
        self._start(f"spy-{self.number}", self._part(f"n=0; {rounds}; echo looked $n"))
        wait_until(lambda: self.other.job(f"spy-{self.number}").state == "RUNNING", 60, "the spy", 0.1)

    def _part(self, command: str) -> dict[str, Any]:
        return self.bed.component(command, resources={"cpu": 0.05, "memory": "32MiB"})

    def _start(self, name: str, part: dict[str, Any]) -> None:
        patiently(lambda: self.other.start({"name": name, "priority": 100, "components": {"t": part}}))

    def end(self) -> list[str]:
        self._start(f"late-spy-{self.number}", self._part(f"{LOOK}; {RIGHTS}; echo looked 1"))
        self.bed.write(f"enough-spy-{self.number}")
        seen: list[str] = []
        for name in (f"spy-{self.number}", f"late-spy-{self.number}"):
            view = patiently(lambda: self.other.wait(name, timeout=90))  # noqa: B023
            lines = whole_log(self.other, name)
            if view.state != "SUCCEEDED" or not [line for line in lines if line.startswith("looked")]:
                seen.append(f"the spy itself is {view.state}: {lines[-3:]}")
            seen += [line for line in lines if NEEDLE in line]
        reached = [*self._reached(), *attackers.reached(self.bed, f"victim-{self.number}")]
        self.bed.write(f"enough-victim-{self.number}")
        return sorted({*seen, *reached})

    def _reached(self) -> list[str]:
        """Return what the API lets the spy do with the victim's job."""
        job = patiently(lambda: self.bed.client.job(f"victim-{self.number}")).id
        tries = {
            "show": lambda: self.other.job(job),
            "logs": lambda: list(self.other.logs(job)),
            "stop": lambda: self.other.stop(job),
            "exec": lambda: list(self.other.execute(job, "t.0", ["true"]).output()),
        }
        done = []
        for what, attempt in tries.items():
            try:
                patiently(attempt)
                done.append(what)
            except (NotFoundError, NotAllowedError):
                pass
        return done


def _printed(client: Client, job: str) -> list[str]:
    return [line.text for line in client.logs(job)]
