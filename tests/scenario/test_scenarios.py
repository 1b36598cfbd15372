"""Runs the transcripts beside this file: commands, ``----``, and what the cluster looks like after them.

``python -m tests.scenario.bless`` writes the expectations anew; read the diff, and commit it only if you understand it.

commands
  node NAME [cpu=2] [memory=4GiB] [gpu=0] [model=A100] [disk=0] [path=rack1/s1] [label:KEY=VALUE] [custom:KEY=N]
                                              a node that is there by itself, as that of a local cluster
  join NAME [the same]                        a ticket lets a node in; nothing of it is heard yet
  hello NAME [probe=ok|WHY] [version=V] [cpu=N] [gpu=N]   its node-agent starts
  cordon / uncordon NODE, drain NODE [deadline=S], remove NODE [force=1]
  busy NODE DEVICE [OWNER]                    a program that is not Grass's is on the device; none: it is gone
  lost NODE DEVICE [WHY], ecc NODE DEVICE N   the device does not answer; has had so many errors of its memory
  hold NODE [cpu=N]                           a check of the node begins: the job that holds it
  verdict NODE good|bad|unknown [level=N] [fault=WORD] [gpu=DEVICE]   what the check found
  release NODE                                ends what checks found
  condition NODE [CODE WHY]                   why it wants no tasks now; none: it does
  obstinate / obedient NODE                   whether its tasks ignore that they are told to stop
  level N                                     parallel_level from here on
  quota USER|* RESOURCE=N                     units as in the settings' model: thousandths, bytes
  submit [USER]                               the job file follows, indented
  end KEY [code=N|signal=N] [stopped=1]       an attempt ends, by itself or because it was told to stop
  ready KEY                                   its readiness check passed
  stop JOB / delete JOB                       as the API would ask
  scale JOB COMPONENT [size=N] [delta=N] [remove=TASK,…] [partial=1] [deadline=S]   operations, called o1, o2, …
  suspend / resume / restart JOB, replace JOB TASK, cancel JOB OPERATION
  drained KEY                                 its framework has let it go
  cut NODE / heal NODE / reboot NODE          the node is away, back, or starts anew
  schedule [USER] / unschedule NAME           the schedule file follows, indented
  forget NAME                                 the schedule is deleted
  advance SECONDS                             time passes
  sleep SECONDS                               time passes while the whole cluster is off
  takeover                                    a new master-agent rebuilds its memory
every block ends with the whole state.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.manifest import parse_job
from grass.manifest.schedule import parse_schedule
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, TaskState
from grass.model.resources import Resources
from grass.wire.checks import NodeCheck, NodeVerdict
from grass.wire.codec import builtins
from grass.wire.tickets import StartSchedule, StopSchedule
from tests.support.said import report, ticket
from tests.support.world import CALM, World

LONG = 600
"""Seconds. A longer time passes in larger steps, which no transcript may depend on."""

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_transcript_holds(path: Path) -> None:
    text = path.read_text()
    assert replay(text) == text


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_transcript_holds_however_little_a_round_bears(path: Path) -> None:
    text = path.read_text()
    assert replay(text, room=1, tickets_at_once=1, events_at_once=1) == text


def replay(text: str, room: int | None = None, **bears: int) -> str:
    """``room``: how many tasks a round may assign. ``bears``: how many messages one takes."""
    world = World(**bears)
    world.room = room or world.room
    out: list[str] = []
    for block in text.split("\n\n"):
        if "----" not in block:
            out.append(block.rstrip("\n"))
            continue
        commands = block.partition("----")[0].rstrip("\n")
        for command in joined(commands):
            obey(world, command)
        out.append(f"{commands}\n----\n{describe(world)}".rstrip("\n"))
    return "\n\n".join(out) + "\n"


def newest_id(world: World, job: str) -> str:
    """The hexadecimal part of the id of a job that a schedule started."""
    return str(world.job(job)["id"]).rpartition("-")[2]


def joined(commands: str) -> list[str]:
    """Indented lines belong to the command above them; comments are left out."""
    result: list[str] = []
    for line in commands.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith(" ") and result:
            result[-1] += "\n" + line
        else:
            result.append(line)
    return result


def obey(world: World, command: str) -> None:  # noqa: C901 (one flat case per verb)
    head, _, body = command.partition("\n")
    verb, *words = head.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    name = words[0] if words and "=" not in words[0] else ""
    name = name.replace("-ID/", f"-{newest_id(world, name.partition('-ID/')[0])}/") if "-ID/" in name else name
    match verb:
        case "node":
            world.add_node(name, **size(options))
        case "join":
            if name not in world.nodes:
                world.add_node(name, joins=True, **size(options))
            body = {key: world.nodes[name].about[key] for key in ("labels", "path") if key in world.nodes[name].about}
            world.ticket("node-join", name=name, digest="0" * 64, node=body)
        case "hello":
            say_hello(world, name, options)
        case "cordon" | "uncordon":
            world.ticket(f"node-{verb}", node=name)
        case "drain":
            deadline = float(options["deadline"]) if "deadline" in options else None
            world.ticket("node-drain", node=name, deadline=deadline)
        case "off":
            world.nodes[name].connected = False
            world.ticket("node-stop", node=name, why=" ".join(words[1:]))
        case "remove":
            world.ticket("node-remove", node=name, force="force" in options)
        case "hold":
            cpu = int(float(options.get("cpu", 0)) * 1000)
            holder = Component("n0", "x", resources=Resources(cpu=cpu), checks=name)
            number = 1 + sum(job["name"].startswith("check") for job in world.jobs())
            world.submit(Job(f"check{number}", {"n0": holder}, ("n0",)))
        case "verdict":
            fault, devices = options.get("fault", ""), tuple(int(each) for each in options.get("gpu", ""))
            found = NodeVerdict(name, words[1], fault, ("what was seen",) if fault else (), devices)
            check = NodeCheck(at=world.wall, user="ann", level=int(options.get("level", 1)), verdict=found)
            world.ticket("node-checked", node=name, check=builtins(check))
        case "release":
            world.ticket("node-release", node=name)
        case "busy":
            world.nodes[name].busy = {int(words[1]): words[2]} if len(words) > 2 else {}
            world.nodes[name].beat()
            world.run()
        case "lost":
            world.nodes[name].lost = {int(words[1]): " ".join(words[2:])} if len(words) > 2 else {}
            world.nodes[name].beat()
            world.run()
        case "ecc":
            world.nodes[name].ecc[int(words[1])] = int(words[2])
            world.nodes[name].beat()
            world.run()
        case "condition":
            reason = {"code": words[1], "message": " ".join(words[2:]), "details": {}} if len(words) > 1 else None
            world.nodes[name].conditions = [reason] if reason else []
            world.nodes[name].beat()
            world.run()
        case "obstinate" | "obedient":
            world.nodes[name].obstinate = verb == "obstinate"
            world.run()
        case "quota":
            amounts = {key: int(value) for key, value in options.items()}
            quotas = {"default_quota": amounts} if name == "*" else {"quotas": {**world.limits.quotas, name: amounts}}
            world.limits = replace(world.limits, **quotas)
        case "level":
            world.limits = replace(world.limits, parallel_level=int(name))
        case "submit":
            job = parse_job(yaml.safe_load(body)).job
            runs = sum(1 for view in world.jobs() if view["name"] == job.name)
            world.submit(job, runs + 1, name or "ann")
        case "end":
            how: dict[str, Any] = {key: int(value) for key, value in options.items()}
            if how.pop("stopped", 0):
                how["stopped"] = True
            world.end(name, **({"code": None, **how} if "signal" in how else how))
        case "scale" | "suspend" | "resume" | "restart" | "replace" | "cancel":
            operate(world, verb, words, options)
        case "ready" | "drained":
            node = next(node for node in world.nodes.values() if name in node.running)
            node.store.report([report("tasks", {"events": [{"key": name, "event": verb}]})])
            world.run()
        case "stop" | "delete":
            world.api.ticket(ticket(verb, id=world.job(name)["id"], user="ann"))
            world.run()
        case "cut":
            world.nodes[name].connected = False
        case "heal":
            node = world.nodes[name]
            node.connected = True
            node.hello()
            world.run()
        case "reboot":
            node = world.nodes[name]
            gone, node.connected = list(node.running), True
            reason = {"code": "node-rebooted", "message": f"node {name} was rebooted", "details": {}}
            node.hello("boot-2")
            events = [node.end(key, world.wall, code=None, reason=reason) for key in gone]
            node.store.report([report("tasks", {"events": events})])
            world.run()
        case "schedule":
            schedule = parse_schedule(yaml.safe_load(body))
            world.api.ticket(StartSchedule(schedule.schedule, name or "ann"))
            world.run()
        case "unschedule":
            world.api.ticket(StopSchedule(name, "ann"))
            world.run()
        case "forget":
            world.ticket("schedule-delete", name=name)
        case "sleep":
            world.now += float(name)
        case "advance":
            seconds = float(name)
            world.advance(seconds, CALM if seconds >= LONG else 1.0)
        case "takeover":
            world.takeover()
            world.run()
        case _:
            raise ValueError(command)


def operate(world: World, verb: str, words: list[str], options: dict[str, str]) -> None:
    """File an operation on a job, or cancel one."""
    job_id = world.job(words[0])["id"]
    if verb == "cancel":
        world.ticket("operation-cancel", job_id=job_id, id=words[1])
        return
    body: dict[str, Any] = {"component": words[1]} if verb == "scale" else {}
    body |= {"task": words[1]} if verb == "replace" else {}
    body |= {key: int(options[key]) for key in ("size", "delta") if key in options}
    body |= {"remove": options["remove"].split(",")} if "remove" in options else {}
    body |= {"partial": True} if "partial" in options else {}
    body |= {"deadline": float(options["deadline"])} if "deadline" in options else {}
    world.ticket(verb, job_id=job_id, id=f"o{len(world.api.operations(job_id)) + 1}", **body)


def size(options: dict[str, str]) -> dict[str, Any]:
    """What a node has, from the words of its command."""
    more: dict[str, Any] = {}
    for prefix, kind in (("label:", str), ("custom:", int)):
        found = {key.removeprefix(prefix): kind(value) for key, value in options.items() if key.startswith(prefix)}
        if found:
            more |= {"labels": found} if prefix == "label:" else {"custom": tuple(sorted(found.items()))}
    if "path" in options:
        more["path"] = options["path"].split("/")
    if "model" in options:
        more["model"] = options["model"]
    memory = int(options.get("memory", "4GiB").removesuffix("GiB")) << 30
    disk = int(options.get("disk", "0GiB").removesuffix("GiB")) << 30
    amounts = {"cpu": float(options.get("cpu", "2")), "memory": memory, "gpu": int(options.get("gpu", "0"))}
    return {**amounts, "disk": disk, **more}


def say_hello(world: World, name: str, options: dict[str, str]) -> None:
    node = world.nodes[name]
    if "probe" in options:
        passed = options["probe"] == "ok"
        checks = [{"name": "share", "ok": passed, "message": options["probe"]}]
        node.about["probe"] = {"passed": passed, "checks": checks}
    if "version" in options:
        node.about["version"] = options["version"]
    if "cpu" in options or "gpu" in options:
        world.shrunk.add(name)
        cpu = int(float(options["cpu"]) * 1000) if "cpu" in options else node.total.cpu
        gpu = int(options["gpu"]) * 1000 if "gpu" in options else node.total.gpu
        node.total = replace(node.total, cpu=cpu, gpu=gpu)
        node.devices = node.devices[: gpu // 1000]
    node.hello()
    world.run()


def describe(world: World) -> str:
    lines = []
    for schedule in world.schedule_views():
        due = "" if schedule["next"] is None else f" next={schedule['next'] - world.wall:g}s"
        lines.append(f"schedule {schedule['name']} {schedule['state']}{due}{why(schedule['reason'])}")
    for view in world.jobs():
        counts = " ".join(f"{state}={count}" for state, count in sorted(view["counts"].items()))
        label = f"{view['name']}-ID" if view["schedule"] else view["id"]
        lines.append(f"{label} {view['state']} {counts}{why(view['reason'])}")
        for component, part in view["components"].items():
            if part["reason"] and not JobState(view["state"]).ended:
                lines.append(f"  {component} waits{why(part['reason'])}")
        lines += operations(world, view["id"])
        for name, task in sorted(world.tasks(view["id"]).items()):
            end = "" if task["exit_code"] is None else f" code={task['exit_code']}"
            gpus = "".join(f" gpu{device}={share / 1000:g}" for device, share in task["gpus"] if on_node(task))
            lines.append(f"  {name}/{task['attempt']} {task['state']} {task['node']}{gpus}{end}{why(task['reason'])}")
    views = {view["name"]: view for view in world.node_views()}
    for node in world.nodes.values():
        view = views.get(node.name)
        if view is None:
            lines.append(f"{node.name} is no part of the cluster")
            continue
        shown = ("cpu", "gpu") if view["resources"]["gpu"] else ("cpu",)
        free = " ".join(f"{key}={view['free'][key] / 1000:g}" for key in shown)
        state = view["state"] + (" cordoned" if view["cordoned"] else "")
        ill = "".join(f" gpu{device} in quarantine ({text})" for device, text in view["quarantine"].items())
        lines.append(f"{node.name} {state} free {free} runs {len(node.running)}{ill}{why(view['reason'])}")
    return "\n".join(lines)


def operations(world: World, job_id: str) -> list[str]:
    lines = []
    for each in world.api.operations(job_id):
        sizes = "" if each.to_size is None else f" {each.from_size} to {each.to_size}"
        state = f"{each.state.value}{f' {each.outcome.value}' if each.outcome else ''}"
        lines.append(f"  {each.id} {each.kind.value}{sizes} by {each.author}: {state} ({each.message})")
    return lines


def on_node(task: dict[str, Any]) -> bool:
    return TaskState(task["state"]).on_node


def why(reason: dict[str, object] | None) -> str:
    return f" ({reason['code']}: {reason['message']})" if reason else ""
