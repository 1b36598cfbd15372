"""The program that watches Azure's events on a machine, as root. Text, because the first boot writes it there.

Used by ``resources``. It needs Python alone. Azure tells 30 s before it takes a Spot machine back, at best; root
alone can ask. The program writes why the machine goes into the folders of node-agents and wakes them; what they do then
is in ``node.agent.eviction``.
"""

from __future__ import annotations

URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
FOLDERS = "/run/grass/*/"
WAKE = ("systemctl", "kill", "--signal=USR1", "--kill-who=main", "grass-node-agent@*.service")
PATH = "/usr/local/sbin/grass-machine-events"


def program(url: str = URL, folders: str = FOLDERS, wake: tuple[str, ...] = WAKE, every: float = 1.0) -> str:
    """Return the program. ``folders``: a pattern. ``wake``: the command that wakes node-agents."""
    values = {"URL": url, "FOLDERS": folders, "WAKE": list(wake), "EVERY": every}
    return "#!/usr/bin/python3\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items()) + _PROGRAM


_PROGRAM = r'''
import email.utils, glob, json, os, socket, subprocess, sys, time, urllib.request

NAME = socket.gethostname().lower()
WORDS = {"Reboot": "reboots", "Redeploy": "moves", "Terminate": "deletes"}
AHEAD = 60.0  # seconds before an event that was announced for a time, at which tasks end

# no proxy: it would answer for another machine
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def read(patience):
    request = urllib.request.Request(URL, headers={"Metadata": "true"})
    with opener.open(request, timeout=patience) as reply:
        return json.load(reply).get("Events") or []


def why(events):
    for event in events:
        if NAME not in [str(each).lower() for each in event.get("Resources") or []]:
            continue
        kind = event.get("EventType")
        if kind == "Preempt":
            return "Azure takes this machine back (Spot)"
        if kind in WORDS and (event.get("EventStatus") == "Started" or is_near(event.get("NotBefore"))):
            return "Azure %s this machine" % WORDS[kind]
    return ""


def is_near(moment):
    if not moment:
        return True
    try:
        return email.utils.parsedate_to_datetime(moment).timestamp() - time.time() <= AHEAD
    except (TypeError, ValueError):
        return False


def say(text):
    """Write or remove the files. Return whether one changed. The folders are not root's, so no link is followed."""
    changed = False
    for folder in glob.glob(FOLDERS):
        path, new = os.path.join(folder, "eviction"), os.path.join(folder, ".eviction-%d" % os.getpid())
        try:
            if os.path.lexists(path) == bool(text):
                continue
            if text:
                if os.path.lexists(new):
                    os.unlink(new)
                with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as file:
                    file.write(text)
                os.rename(new, path)
            else:
                os.unlink(path)
            changed = True
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
    return changed


patience, told = 150.0, None  # the first answer may take two minutes
while True:
    try:
        text = why(read(patience))
        patience = 5.0
    except (OSError, ValueError, AttributeError) as error:
        if str(error) != told:
            told = str(error)
            print(told, file=sys.stderr, flush=True)
    else:
        if say(text):
            print(text or "the machine stays", file=sys.stderr, flush=True)
            subprocess.run(WAKE, check=False)
    time.sleep(EVERY)
'''
