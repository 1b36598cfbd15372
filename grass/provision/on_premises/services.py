"""Start of a host's daemons under systemd, and the check that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grass import clock
from grass.hosts import CommandFailedError, Host
from grass.network_address import WILDCARDS, host_and_port, network_address
from grass.provision.on_premises.design import MasterDesign
from grass.provision.on_premises.facts import Listener, parse_listeners
from grass.provision.on_premises.steps import Call, Put, Run, Step

_SHOWN_JOURNAL = 15
_PATIENCE = 20.0


def start_step(design: MasterDesign, words: str) -> Step:
    """Start the daemons. Restart them if any of their files changed since `grass` last started them."""
    config, units = design.config, design.units
    stamp = f"{config.home}/started"
    check = '[ "$(cat "$1" 2>/dev/null)" = "$2" ] || exit 1; shift 2; systemctl is-active --quiet "$@"'
    check += ' && systemctl is-enabled --quiet "$@"'
    return Step(
        f"start {', '.join(unit.partition('@')[0].removeprefix('grass-') for unit in units)}",
        (
            Run(("systemctl", "enable", "--quiet", f"grass@{config.name}.target", *units)),
            Call(f"systemctl restart {' '.join(units)}, and wait until they are ready", _Starter(config.name, units)),
            Put(stamp, f"{words}\n".encode(), 0o600, "grass:grass"),
        ),
        Run(("sh", "-c", check, "check", stamp, words, *units)),
    )


class _Starter:
    def __init__(self, name: str, units: Sequence[str]) -> None:
        self._name, self._units = name, units

    def __call__(self, host: Host) -> None:
        started = host.run(["systemctl", "restart", *self._units], sudo=True)
        if started.ok:
            host.run(["systemctl", "start", f"grass@{self._name}.target"], sudo=True).check()
            return
        raise CommandFailedError(why_not(host, self._units, started.err))


def why_not(host: Host, units: Sequence[str], said: str) -> str:
    """Return which unit did not start, with the end of its journal."""
    lines = []
    for unit in units:
        if host.run(["systemctl", "is-active", "--quiet", unit], sudo=True).ok:
            continue
        journal = host.run(["journalctl", "-u", unit, "-n", str(_SHOWN_JOURNAL), "-o", "cat", "--no-pager"], sudo=True)
        lines.append(f"{host.name}: {unit} does not run; the end of its journal:")
        lines += [f"    {line}" for line in journal.out.splitlines()]
    return "\n".join(lines) or f"{host.name}: systemctl failed: {said.strip()}"


def listening_step(design: MasterDesign) -> Step:
    """Check that every service listens at its own address, and at no other."""
    config = design.config
    expected = {
        config.master.api_port: ("api", config.master.api_host),
        config.redis.port or 0: ("redis", config.node.address),
        host_and_port(config.collector or ":0")[1]: ("collector", config.node.address),
    }
    if config.task_redis_server:
        expected[host_and_port(config.task_redis_server)[1]] = ("task-redis", config.node.address)
    if config.samba:
        expected[config.samba.port] = ("samba", config.samba.host)
    text = ", ".join(f"{name} at {network_address(address, port)}" for port, (name, address) in expected.items())
    return Step(
        f"look at what listens: {text}", (Call("compare with `ss -l -t -n`", _listening(expected)),), looks=True
    )


def _listening(expected: dict[int, tuple[str, str]]) -> Callable[[Host], None]:
    def look(host: Host) -> None:
        until = clock.steady() + _PATIENCE
        while faults := _faults(
            expected, parse_listeners(host.run(["ss", "-H", "-l", "-t", "-n", "-p"], sudo=True).out)
        ):
            if clock.steady() > until:
                raise CommandFailedError(f"{host.name}: {'; '.join(faults)}")
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
