"""The command line of the lab: ``scripts/lab VERB``. Parses, calls, prints; decides nothing."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from . import packages
from .command import LabError, say
from .host import ADMIN, OPERATOR
from .images import TASK_IMAGES, VARIANTS
from .lab import Lab, lab_home, labs

Arguments = argparse.Namespace


def up(lab: Lab, arguments: Arguments) -> int:
    variants = dict(arguments.variant) | {name: "bare" for name in arguments.bare}
    lab.up(arguments.nodes, variants, offline=arguments.offline)
    kinds = ", ".join(str(lab.images.task_tar(kind)) for kind in TASK_IMAGES)
    say(f"{len(lab.hosts)} hosts are up. Key: {lab.keys.private}; SSH configuration: {lab.keys.config}")
    say(f"users: root, {OPERATOR} (sudo without a password), {ADMIN} (sudo, its password: {lab.password})")
    say(f"task images to load: {kinds}")
    say(f"the file below is {lab.cluster_file}")
    print(lab.cluster_file.read_text(), end="")
    return 0


def build(lab: Lab, arguments: Arguments) -> int:
    lab.build()
    return 0


def image(lab: Lab, arguments: Arguments) -> int:
    print(lab.task_image(arguments.name, arguments.packages))
    return 0


def status(lab: Lab, arguments: Arguments) -> int:
    if not lab.engine.answers():
        print("no docker engine answers; `scripts/lab up` starts one")
        return 1
    if not lab.hosts:
        others = ", ".join(labs(lab.home)) or "none"
        print(f"there is no lab {lab.name!r} (labs: {others}); `scripts/lab up` makes it")
        return 1
    for host in lab.hosts.values():
        state = host.state()
        network = "" if state == "absent" else "cut" if host.is_cut() else "connected"
        print(f"{host.name:<8} {host.address:<15} {state:<8} {network:<10} {host.variant}")
    return 0


def ssh(lab: Lab, arguments: Arguments) -> int:
    host = lab.host(arguments.host)
    user = f"{arguments.user}@" if arguments.user else ""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    os.execvp("ssh", ["ssh", "-F", str(lab.keys.config), f"{user}{host.name}", *command])


def on_host(verb: str) -> Callable[[Lab, Arguments], int]:
    """Return an action that calls the ``Host`` method ``verb`` (``cut``, ``heal``…) on the named hosts."""

    def action(lab: Lab, arguments: Arguments) -> int:
        for name in arguments.hosts:
            getattr(lab.host(name), verb)()
        return 0

    return action


def reset(lab: Lab, arguments: Arguments) -> int:
    for name in arguments.hosts:
        lab.reset(name)
    return 0


def down(lab: Lab, arguments: Arguments) -> int:
    lab.down()
    if arguments.images:
        lab.images.remove()
    running = lab.engine.own_pid()
    if arguments.engine and running is None:
        say("there is no engine that the lab has started")
    elif arguments.engine and labs(lab.home):
        raise LabError(f"the engine still serves other labs: {', '.join(labs(lab.home))}")
    elif arguments.engine:
        lab.engine.stop()
    elif running is not None:
        say(f"the lab's docker engine (pid {running}) keeps running; `scripts/lab down --engine` ends it")
    return 0


HOST_VERBS = {
    "cut": "take the network away from hosts (pull the cable)",
    "heal": "give it back, with the same addresses",
    "kill": "power loss: every process is gone at once, disks stay",
    "start": "power on after a kill",
    "reboot": "an orderly reboot",
    "hang": "freeze hosts: nothing on them runs",
    "resume": "end that",
}


def variant(text: str) -> tuple[str, str]:
    host, _, kind = text.partition("=")
    return host, kind


def parser() -> argparse.ArgumentParser:
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--prefix", default=argparse.SUPPRESS, help="which lab: several live side by side (lab)")
    made = argparse.ArgumentParser("scripts/lab", description=__doc__.partition("\n")[0], parents=[which])
    verbs = made.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, action: Callable[[Lab, Arguments], int], text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text, parents=[which])
        added.set_defaults(action=action)
        return added

    raised = verb("up", up, "hosts `master` and n1…, ready for SSH; prints a file for `grass create`")
    raised.add_argument("--nodes", type=int, default=3, help="besides the master (3)")
    raised.add_argument("--bare", action="append", default=[], metavar="HOST", help="this one without docker")
    raised.add_argument(
        "--variant", action="append", type=variant, default=[], metavar="HOST=KIND", help=f"KIND: {', '.join(VARIANTS)}"
    )
    raised.add_argument("--offline", action="store_true", help="a network without a way out (when the lab is made)")
    verb("build", build, "only what `up` needs: packages, engine, images")
    made_image = verb(
        "image", image, "a task image with Python and packages of PyPI; prints the file for `docker load`"
    )
    made_image.add_argument("name")
    made_image.add_argument("packages", nargs="+", metavar="PACKAGE")
    verb("status", status, "the hosts: address, state, network, variant")
    shell = verb("ssh", ssh, "log in as root, or run CMD; exits with its code")
    shell.add_argument("--user", help=f"{ADMIN}, {OPERATOR} or root")
    shell.add_argument("host")
    shell.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    for name, text in HOST_VERBS.items():
        verb(name, on_host(name), text).add_argument("hosts", nargs="+", metavar="HOST")
    verb("reset", reset, "hosts as new: other disks, other host keys").add_argument("hosts", nargs="+", metavar="HOST")
    ended = verb("down", down, "remove hosts, disks, network and state; images are kept")
    ended.add_argument("--images", action="store_true", help="remove the images, too")
    ended.add_argument("--engine", action="store_true", help="end the docker engine if the lab started it")
    return made


def main() -> int:
    arguments = parser().parse_args()
    try:
        packages.require_root()
        return int(arguments.action(Lab(getattr(arguments, "prefix", "lab"), lab_home()), arguments))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("interrupted; run the same command again to continue")
        return 130


if __name__ == "__main__":
    sys.exit(main())
