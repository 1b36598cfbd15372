"""The shapes of bodies, as JSON Schema (OpenAPI 3.1). Named by the route table; tests hold replies to them."""

from __future__ import annotations

from typing import Any

from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import ReasonCode

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_TRUTH: Schema = {"type": "boolean"}
_TIME: Schema = {"type": ["number", "null"], "description": "Seconds since the epoch, wall clock"}
_OPEN: Schema = {"type": "object"}
_COUNTS: Schema = {"type": "object", "additionalProperties": _WHOLE}
_REASON: Schema = {"oneOf": [{"$ref": "#/components/schemas/Reason"}, {"type": "null"}]}
_RESOURCES: Schema = {"oneOf": [{"$ref": "#/components/schemas/Resources"}, {"type": "null"}]}


def _maybe(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _state(states: type) -> Schema:
    return {"type": "string", "enum": [state.value for state in states]}  # type: ignore[attr-defined]


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, Schema] = {
    "Reason": _object(
        {"code": {"type": "string", "enum": [code.value for code in ReasonCode]}, "message": _TEXT},
        {"details": {"type": "object"}},
    ),
    "Resources": _object(
        {
            "cpu": {**_WHOLE, "description": "Thousandths of a core"},
            "memory": {**_WHOLE, "description": "Bytes"},
            "gpu": {**_WHOLE, "description": "Thousandths of a device"},
        },
        {
            "disk": {**_WHOLE, "description": "Bytes of scratch"},
            "custom": {"type": "object", "additionalProperties": _WHOLE},
        },
    ),
    "SessionWish": _object({"protocol": _WHOLE, "version": _TEXT}),
    "Session": _object(
        {
            "session": {**_TEXT, "description": "Its id, 32 hexadecimal digits"},
            "key": {**_TEXT, "description": "256 bits, base64url"},
            "seconds": {**_WHOLE, "description": "How long it lasts"},
            "protocol": {**_WHOLE, "description": "What the server speaks"},
            "version": {**_TEXT, "description": "Of Grass on the server"},
        }
    ),
    "Job": _object(
        {
            "id": _TEXT,
            "name": _TEXT,
            "user": _TEXT,
            "state": _state(JobState),
            "reason": _REASON,
            "submitted": _NUMBER,
            "started": _TIME,
            "ended": _TIME,
            "exit_code": _maybe(_WHOLE),
            "counts": {**_COUNTS, "description": "Tasks by state"},
            "components": {"type": "object", "additionalProperties": _ref("JobComponent")},
            "restarts": _WHOLE,
            "schedule": _maybe(_TEXT),
            "warnings": _list(_TEXT),
        }
    ),
    "JobComponent": _object({"replicas": _WHOLE, "counts": _COUNTS, "reason": _REASON}),
    "Jobs": _object({"jobs": _list(_ref("Job"))}),
    "Submission": _object(
        {"manifest": {"type": "object"}},
        {
            "strict": {**_TRUTH, "description": "Refuse warnings and what no node could ever hold"},
            "cwd": {**_maybe(_TEXT), "description": "Folder in which the tasks of a native job run"},
            "id": {**_TEXT, "description": "NAME-xxxxxxxx: sent again with the same id, nothing is started twice"},
        },
    ),
    "Started": _object({"name": _TEXT, "id": _TEXT, "warnings": _list(_TEXT)}),
    "Task": _object(
        {
            "task": _TEXT,
            "component": _TEXT,
            "index": _WHOLE,
            "state": _state(TaskState),
            "attempt": _WHOLE,
            "node": _maybe(_TEXT),
            "exit_code": _maybe(_WHOLE),
            "signal": _maybe(_WHOLE),
            "reason": _REASON,
            "started": _TIME,
            "ended": _TIME,
            "ports": {"type": "object", "additionalProperties": _WHOLE},
            "restarts": _WHOLE,
            "pid": _maybe(_WHOLE),
            "sizes": {
                "type": ["object", "null"],
                "description": "Bytes of stdout and stderr of the last ended attempt",
            },
            "ready": _maybe(_TRUTH),
            "gpus": {
                "type": ["array", "null"],
                "items": {"type": "array", "items": _WHOLE},
                "description": "Id and thousandths of each device",
            },
        }
    ),
    "Tasks": _object({"tasks": _list(_ref("Task"))}),
    "Why": _object(
        {"id": _TEXT, "name": _TEXT, "state": _state(JobState), "reason": _REASON, "groups": _list(_ref("WhyGroup"))}
    ),
    "WhyGroup": _object(
        {
            "component": _TEXT,
            "state": _state(TaskState),
            "count": _WHOLE,
            "reason": _REASON,
            "next": {**_maybe(_TEXT), "description": "What would start them"},
        }
    ),
    "Preview": _object({"manifest": {"type": "object"}}),
    "JobPlan": _object(
        {
            "name": _TEXT,
            "reason": _REASON,
            "components": {"type": "object", "additionalProperties": _ref("ComponentPlan")},
            "evictions": _list(_ref("PlannedEviction")),
            "warnings": _list(_TEXT),
        }
    ),
    "ComponentPlan": _object(
        {
            "replicas": _WHOLE,
            "at_once": {**_WHOLE, "description": "So many of its tasks may run at the same time"},
            "depends_on": {"type": "object", "additionalProperties": _TEXT},
            "nodes": _list(_ref("PlannedPlace")),
            "reason": _REASON,
        }
    ),
    "PlannedPlace": _object(
        {
            "node": _TEXT,
            "count": _WHOLE,
            "devices": {
                "type": "array",
                "items": {"type": "array", "items": _WHOLE},
                "description": "Id and thousandths of each GPU that its tasks get",
            },
        }
    ),
    "PlannedEviction": _object(
        {
            "job": {**_maybe(_TEXT), "description": "null: a job that the caller may not see"},
            "count": {**_WHOLE, "description": "Tasks that would be stopped"},
        }
    ),
    "Waited": _object(
        {"job": _ref("Job")},
        {"pause": {**_NUMBER, "description": "In the last one: seconds after which to ask again if it has not ended"}},
    ),
    "LogQuery": _object(
        {},
        {
            "component": _maybe(_TEXT),
            "index": _maybe(_WHOLE),
            "tail": {**_maybe(_WHOLE), "description": "So many last lines"},
            "since": {**_maybe(_NUMBER), "description": "Only lines that are newer, wall clock"},
            "follow": _TRUTH,
            "cursor": {"type": ["object", "null"], "description": "All cursors of an earlier stream, merged"},
            "before": {**_maybe(_NUMBER), "description": "As the earlier stream said"},
        },
    ),
    "LogPiece": _object(
        {
            "job_id": _TEXT,
            "lines": _list(_ref("LogLines")),
            "cursor": {"type": "object", "description": "To be merged, by task and stream, into those before"},
            "live": {**_TRUTH, "description": "All that was there at the beginning has been sent"},
            "open": {**_TRUTH, "description": "In the last piece: there may be more, ask again"},
        },
        {
            "before": {**_NUMBER, "description": "To be sent back with the cursor"},
            "pause": {**_NUMBER, "description": "Seconds after which to ask again, where too many follow already"},
        },
    ),
    "LogLines": {
        "type": "array",
        "description": "task, attempt, stream, time, text of one or more lines, whether a newline ends the last one, "
        "bytes lost before the first one",
        "prefixItems": [_TEXT, _WHOLE, {"enum": ["stdout", "stderr"]}, _NUMBER, _TEXT, _TRUTH, _WHOLE],
    },
    "Stop": _object({}, {"grace": {**_maybe(_NUMBER), "description": "Seconds between TERM and KILL"}}),
    "Schedule": _object(
        {
            "name": _TEXT,
            "state": {"type": "string", "enum": ["ACTIVE", "STOPPED", "DONE"]},
            "kind": {"type": "string", "enum": ["batch", "cron"]},
            "user": _TEXT,
            "cron": _maybe(_TEXT),
            "time_zone": _maybe(_TEXT),
            "next": _TIME,
            "last": _TIME,
            "jobs": _list(_TEXT),
            "reason": _maybe({"type": "object"}),
        },
        {"warnings": _list(_TEXT)},
    ),
    "Schedules": _object({"schedules": _list(_ref("Schedule"))}),
    "ScheduleSubmission": _object(
        {"manifest": {"type": "object"}},
        {"cwd": _maybe(_TEXT), "again": {**_TRUTH, "description": "The reply to the same submission may be lost"}},
    ),
    "Node": _object(
        {
            "name": _TEXT,
            "state": _state(NodeState),
            "reason": _REASON,
            "address": _maybe(_TEXT),
            "resources": _RESOURCES,
            "free": _RESOURCES,
            "tasks": _WHOLE,
            "usage": {"type": ["object", "null"]},
            "version": _maybe(_TEXT),
            "seen": _TIME,
            "gpus": {"type": ["array", "null"]},
            "labels": _maybe(_OPEN),
            "path": {"type": ["array", "null"], "items": _TEXT},
            "runtimes": {"type": ["array", "null"], "items": _TEXT},
            "cordoned": _maybe(_TRUTH),
            "quarantine": {"type": ["object", "null"], "description": "Id of a device that no task gets → why"},
        }
    ),
    "Nodes": _object({"nodes": _list(_ref("Node"))}),
    "Exec": _object(
        {"argv": _list(_TEXT)},
        {
            "tty": {**_TRUTH, "description": "With a terminal; everything is then stdout"},
            "rows": _WHOLE,
            "cols": _WHOLE,
        },
    ),
    "ExecStarted": _object({"id": {**_TEXT, "description": "Of the session"}, "node": _TEXT, "attempt": _WHOLE}),
    "ExecOutput": _object(
        {
            "chunks": _list({"type": "array", "prefixItems": [{"enum": ["stdout", "stderr"]}, _TEXT]}),
            "next": {**_WHOLE, "description": "To be given as `after`"},
            "code": {**_maybe(_WHOLE), "description": "Set once it has ended and all of its output was given"},
            "pause": {**_NUMBER, "description": "Seconds after which to ask again, where too many wait already"},
        }
    ),
    "ExecInput": _object({"data": {**_TEXT, "description": "base64"}}, {"end": _TRUTH}),
    "ExecTaken": _object({"taken": {**_WHOLE, "description": "Bytes; the rest is to be sent again"}}),
    "ExecSize": _object({"rows": _WHOLE, "cols": _WHOLE}),
    "NodeWaited": _object(
        {
            "node": {"oneOf": [_ref("Node"), {"type": "null"}], "description": "null: it is gone"},
            "mark": {**_TEXT, "description": "To be given as `seen`"},
            "pause": {**_NUMBER, "description": "Seconds after which to ask again, where too many wait already"},
        }
    ),
    "NodeReached": _object(
        {
            "place": {**_maybe(_TEXT), "description": "ADDRESS:PORT of the node's API, as the master knows it"},
            "error": {**_maybe(_TEXT), "description": "Why the master cannot reach it there; null: it answers"},
        }
    ),
    "NodeAsked": _object({"node": _ref("Node"), "mark": {**_TEXT, "description": "Of the node as it was before"}}),
    "Nothing": _object({}),
    "Drain": _object(
        {}, {"deadline": {**_maybe(_NUMBER), "description": "Seconds until its tasks are stopped; null: when they end"}}
    ),
    "NodeRemoval": _object({}, {"force": {**_TRUTH, "description": "Also with tasks, and when it is away"}}),
    "JoinTokenWish": _object(
        {},
        {
            "name": {**_maybe(_TEXT), "description": "The only node that may use it"},
            "uses": _WHOLE,
            "expires": {**_NUMBER, "description": "Seconds"},
        },
    ),
    "JoinToken": _object({"token": _TEXT, "expires": _NUMBER, "uses": _WHOLE, "name": _maybe(_TEXT)}),
    "JoinTerms": _object({"urls": _list(_TEXT), "key": _TEXT, "bundle": _TEXT, "cluster": _TEXT}),
    "JoinQuestion": _object({"name": _TEXT, "facts": _OPEN}, {"node": _OPEN, "password": _TEXT}),
    "Join": _object(
        {
            "secret": {**_TEXT, "description": "Of the join token"},
            "join_id": {
                **_TEXT,
                "description": "Chosen by the machine; sent again with the same, nothing is used twice",
            },
            "password": {**_TEXT, "description": "The node's for redis, chosen by the machine"},
            "name": _TEXT,
            "facts": {**_OPEN, "description": "address, api_port, version, machine, python, resources, gpus, engine"},
        },
        {
            "check": {**_TRUTH, "description": "Only say whether it could join, and what it must be able to reach"},
            "node": {**_OPEN, "description": "What it offers: cpu, memory, gpu, labels, path, runtimes, mounts"},
        },
    ),
    "Joined": _object(
        {"cluster": _TEXT, "time": _NUMBER},
        {
            "reach": _list(_object({"what": _TEXT, "host": _TEXT, "port": _WHOLE})),
            "bundle": _TEXT,
            "kinds": {**_list(_TEXT), "description": "The machines that the bundle is for: 3.11-x86_64-glibc"},
            "config": {**_OPEN, "description": "The node's cluster.json, without its folders"},
            "secrets": _OPEN,
            "share": {**_maybe(_OPEN), "description": "Where the share is and how to mount it; null: there is none"},
        },
    ),
    "NodeProof": _object({"token": {**_TEXT, "description": "The node's"}}, {"force": _TRUTH}),
    "Event": _object(
        {"id": _TEXT, "time": _NUMBER, "kind": _TEXT, "user": _TEXT, "message": _TEXT},
        {"job": _TEXT, "task": _TEXT, "node": _TEXT, "schedule": _TEXT},
    ),
    "EventPiece": _object(
        {"events": _list(_ref("Event")), "after": _TEXT, "open": _TRUTH},
        {"pause": {**_NUMBER, "description": "Seconds after which to ask again, where too many follow already"}},
    ),
    "Status": _object(
        {
            "cluster": _TEXT,
            "mode": _TEXT,
            "version": _TEXT,
            "time": _NUMBER,
            "user": _TEXT,
            "role": _TEXT,
            "jobs": _COUNTS,
            "nodes": _COUNTS,
            "store": {"oneOf": [_object({"code": _TEXT, "message": _TEXT}), {"type": "null"}]},
        }
    ),
    "Error": _object({"error": _ref("ErrorBody")}),
    "ErrorBody": _object(
        {"code": _TEXT, "message": _TEXT, "problems": _list(_ref("Problem"))},
        {"now": {**_NUMBER, "description": "The server's time, where the sender's clock is off"}},
    ),
    "Problem": _object({"path": _TEXT, "message": _TEXT}),
}
