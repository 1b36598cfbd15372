"""Start of a host's daemons under systemd, and the check that they run. Used by ``create`` and ``master``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grass.hosts import CommandFailedError, Host
from grass.lines import lines_of
from grass.network_address import WILDCARDS, host_and_port, network_address
from grass.provision.on_premises.design import MasterDesign
from grass.provision.on_premises.facts import Listener, parse_listeners
from grass.provision.on_premises.log_damage import log_damage
from grass.provision.on_premises.on_host import STARTED
from grass.provision.on_premises.steps import Call, Put, Run, Step
from grass.system import clock

_SHOWN_JOURNAL = 15
_PATIENCE = 20.0


def start_step(design: MasterDesign, reads: Mapping[str, str]) -> Step:
    """Start the daemons. ``reads``: unit → digest of all that its daemon reads when it starts.

    A daemon is restarted if that changed since `grass` last started it: another quota must not break off what tasks
    write into the share.
    """
    config, units = design.config, design.units
    stamp = f"{config.home}/{STARTED}"
    text = "\n".join(f"{unit} {reads[unit]}" for unit in units)
    check = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] || exit 1; shift 2; systemctl is-active --quiet "$@"'
    check += ' && systemctl is-enabled --quiet "$@"'
    starter = _Starter(config.name, stamp, {unit: reads[unit] for unit in units})
    return Step(
        f"start {', '.join(unit.partition('@')[0].removeprefix('grass-') for unit in units)}",
        (
            Run(("systemctl", "enable", "--quiet", f"grass@{config.name}.target", *units)),
            Call(f"systemctl restart each of {' '.join(units)} that reads something new, and wait for it", starter),
            Put(stamp, f"{text}\n".encode(), 0o600, "grass:grass"),
        ),
        Run(("sh", "-c", check, "check", stamp, text, *units)),
    )


class _Starter:
    def __init__(self, name: str, stamp: str, reads: Mapping[str, str]) -> None:
        self._name, self._stamp, self._reads = name, stamp, reads

    def __call__(self, host: Host) -> None:
        before = lines_of(host.run(["cat", "--", self._stamp], sudo=True).out)
        changed = [unit for unit, digest in self._reads.items() if f"{unit} {digest}" not in before]
        for action, units in (("restart", changed), ("start", list(self._reads))):
            if units and not (done := host.run(["systemctl", action, *units], sudo=True)).ok:
                raise CommandFailedError(why_not(host, units, done.err))
        host.run(["systemctl", "start", f"grass@{self._name}.target"], sudo=True).check()


def why_not(host: Host, units: Sequence[str], said: str) -> str:
    """Return which unit did not start, with the end of its journal."""
    lines = []
    for unit in units:
        if host.run(["systemctl", "is-active", "--quiet", unit], sudo=True).ok:
            continue
        journal = host.run(["journalctl", "-u", unit, "-n", str(_SHOWN_JOURNAL), "-o", "cat", "--no-pager"], sudo=True)
        lines.append(f"{host.name}: {unit} does not run; the end of its journal:")
        lines += [f"    {line}" for line in lines_of(journal.out)]
    return "\n".join(lines) or f"{host.name}: systemctl failed: {said.strip()}"


def listening_step(design: MasterDesign) -> Step:
    """Check that every service listens at its own address, and at no other."""
    config = design.config
    expected = {
        config.master.api_port: ("api", config.master.api_host),
        config.redis.port or 0: ("redis", config.address),
        host_and_port(config.collector or ":0")[1]: ("collector", config.address),
    }
    if config.task_redis_server:
        expected[host_and_port(config.task_redis_server)[1]] = ("task-redis", config.address)
    if config.samba:
        expected[config.samba.port] = ("samba", config.samba.host)
    text = ", ".join(f"{name} at {network_address(address, port)}" for port, (name, address) in expected.items())
    return Step(
        f"look at what listens: {text}",
        (Call("compare with `ss -l -t -n`", _listening(expected, str(config.path))),),
        looks=True,
    )


def _listening(expected: dict[int, tuple[str, str]], path: str) -> Callable[[Host], None]:
    def look(host: Host) -> None:
        until = clock.steady() + _PATIENCE
        while faults := _faults(
            expected, parse_listeners(host.run(["ss", "-H", "-l", "-t", "-n", "-p"], sudo=True).out)
        ):
            if clock.steady() > until:
                raise CommandFailedError(f"{host.name}: {log_damage(host, path) or '; '.join(faults)}")
            clock.sleep(0.2)

    return look


def _faults(expected: dict[int, tuple[str, str]], listeners: Sequence[Listener]) -> list[str]:
    everywhere = WILDCARDS | {"*"}
    faults = []
    for port, (name, address) in expected.items():
        found = {listener.address for listener in listeners if listener.port == port}
        right = everywhere if address in everywhere else {address}
        if not found & right:
            faults.append(f"{name} does not listen at {network_address(address, port)}")
        if found - right:
            faults.append(f"{name} listens at {', '.join(sorted(found - right))}, port {port}, and should not")
    return faults
