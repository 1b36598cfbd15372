"""The program that a task of an executor runs. Text, because it is sent to tasks.

Used by ``executor`` and ``call_results``. It needs Python and cloudpickle, and nothing of Grass. ``call_packing``
writes what it reads, and ``call_results`` reads what it writes.

A child process runs the calls, one after the other. The parent unpickles nothing of the user. So a call that ends its
process (``os._exit``, a signal, a fault of a library) ends alone: the parent says so in the log, behind the results so
far, and starts another child for the calls that are left. The child has a process group of its own, and the parent
passes signals on: a signal to the task reaches the child once, whether it was sent to the process or to its group.
"""

from __future__ import annotations

MARK = "\x1eGRASS-RESULT "
MOST_RESULT = 64 * 1024 * 1024
"""Characters of one result."""
_PIECE = 48 * 1024
"""Characters of a result in one line, so that each line stays below the size of a block of the log."""


def program(most_result: int = MOST_RESULT) -> str:
    """Return the program. ``most_result``: characters of one result."""
    return _PROGRAM.replace("MOST_RESULT", str(most_result)).replace("PIECE", str(_PIECE))


_PROGRAM = r"""
import hashlib, hmac, io, mmap, os, pickle, signal, sys, traceback, zlib
from base64 import b64decode, b64encode
import cloudpickle

PLAIN = (int, float, bool, str, bytes, type(None))  # cloudpickle takes longer, for the same

def send(number, *said):
    data = b64encode(zlib.compress(pickle.dumps(said), 1))
    if len(data) > MOST_RESULT:
        size = "%d MiB, at most %d MiB come back; let it write a file" % (len(data) >> 20, MOST_RESULT >> 20)
        return send(number, "unsendable", "ValueError", "too large: it has " + size, "")
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    for at, piece in enumerate(pieces):
        text = b"%d %d %d %s" % (number, at, len(pieces), piece)
        line = b"\n\x1eGRASS-RESULT %s %s\n" % (hmac.new(key, text, "sha256").hexdigest().encode(), text)
        while line:
            line = line[os.write(1, line):]

def dumps(value):
    return (pickle if type(value) in PLAIN else cloudpickle).dumps(value)

def content(data):
    if isinstance(data, bytes):
        return data
    folder, digest = data
    with open(os.path.join(os.environ["GRASS_DATA"], folder, digest), "rb") as file:
        packed = file.read()
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ValueError("%s in the share was changed since the call was sent" % os.path.join(folder, digest))
    return zlib.decompress(packed)

class Loading(pickle.Unpickler):
    def persistent_load(self, number):
        shared[number] = content(shared[number])
        return pickle.loads(shared[number])

def load(data):
    return Loading(io.BytesIO(content(data))).load()

def text_of(error):
    try:
        return str(error)
    except Exception:
        return "<no text>"

def answer(which, arguments):
    try:
        if which not in loaded:
            loaded[which] = load(functions[which])
        positional, named = load(arguments)
        value = loaded[which](*positional, **named)
    except BaseException as error:
        trace = traceback.format_exc()
        try:
            data = cloudpickle.dumps(error)
        except Exception:
            data = None
        return "raised", type(error).__qualname__, text_of(error), trace, data
    try:
        return "returned", dumps(value)
    except Exception as error:
        return "unsendable", type(error).__qualname__, text_of(error), traceback.format_exc()

def work(first):
    for place in range(first, len(calls)):
        number, which, arguments = calls[place]
        at[:] = place.to_bytes(8, "big")
        said = answer(which, arguments)
        try:
            sys.stdout.flush()
        except Exception:
            pass
        send(number, *said)
    at[:] = len(calls).to_bytes(8, "big")

def wait_for(child):
    told = 0
    while True:
        number = signal.sigwait(passed_on | {signal.SIGCHLD})
        if number != signal.SIGCHLD:
            told = number
            os.killpg(child, number)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, told

def end_as(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) or 1)

def run_calls():
    first, worst = 0, None
    while first < len(calls):
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return work(first)
        try:
            os.setpgid(child, child)
        except OSError:
            pass
        status, told = wait_for(child)
        first = int.from_bytes(at[:], "big")
        if first < len(calls):
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            send(calls[first][0], "died", number, 0 if number else os.WEXITSTATUS(status))
        if first < len(calls) or status:
            worst = status if worst is None else worst
        if told:
            break
        first += 1
    if worst is not None:
        end_as(worst)
    os._exit(0)

key, path, functions, shared, calls = pickle.loads(zlib.decompress(b64decode(os.environ["GRASS_ENTRY"])))
sys.path[:0] = [folder for folder in path if folder not in sys.path]
loaded, at = {}, mmap.mmap(-1, 8)
passed_on = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
mask = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
run_calls()
"""
