"""Why a task failed, in one line, from the end of its output."""

# ruff: noqa: E501 (what programs print)
from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from node.causes.cause import MOST, cause_of

PLAIN = """\
epoch 3: loss 0.1
Traceback (most recent call last):
  File "/home/ann/exp/train.py", line 88, in <module>
    main()
  File "/home/ann/exp/train.py", line 41, in main
    raise ValueError("diverged: loss is nan")
ValueError: diverged: loss is nan
"""
IN_A_LIBRARY = """\
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    model(x)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1511, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB
"""
CAUSED = """\
Traceback (most recent call last):
  File "train.py", line 4, in load
    return table["lr"]
KeyError: 'lr'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise RuntimeError("bad settings") from error
RuntimeError: bad settings
"""
DURING = CAUSED.replace(
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "run.py", line 20, in <module>
  |     raise ExceptionGroup("shards failed", errors)
  | ExceptionGroup: shards failed (3 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "run.py", line 7, in shard
    |     raise ValueError("bad shard")
    | ValueError: bad shard
    +---------------- 2 ----------------
    | KeyError: 'x'
    +---------------- 3 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "run.py", line 9, in deep
    | ExceptionGroup: deep (1 sub-exception)
    +-+---------------- 1 ----------------
      | OSError: disk
      +------------------------------------
"""
TORCHRUN = """\
W1127 10:00:00.000000 77 torch/distributed/run.py:792] Setting OMP_NUM_THREADS
[rank1]: Traceback (most recent call last):
[rank0]: Traceback (most recent call last):
[rank1]:   File "/w/ddp.py", line 33, in <module>
[rank0]:   File "/w/ddp.py", line 40, in <module>
[rank1]:     step(batch)
[rank0]:     dist.all_reduce(grad)
[rank1]: ValueError: shape mismatch on rank 1
[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited
E1127 10:00:02.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 900, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
ddp.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : 1 (pid: 99)
============================================================
"""
SPAWNED = """\
Traceback (most recent call last):
  File "main.py", line 30, in <module>
    mp.spawn(work, nprocs=2)
  File "/opt/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 202, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 74, in _wrap
    fn(i, *args)
  File "/w/main.py", line 11, in work
    raise ValueError("worker")
ValueError: worker
"""
POOL = '''\
multiprocessing.pool.RemoteTraceback:
"""
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 125, in worker
    result = (True, func(*args, **kwds))
  File "/w/pool.py", line 5, in square
    raise ValueError("no square")
ValueError: no square
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/pool.py", line 9, in <module>
    pool.map(square, range(3))
ValueError: no square
'''
ASIDES = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    open("missing.csv")
FileNotFoundError: [Errno 2] No such file or directory: 'missing.csv'
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 271, in __del__
    self._change_notifier.put(None)
AttributeError: 'Pool' object has no attribute '_change_notifier'
"""
MPIRUN = """\
[1,0]<stderr>:Traceback (most recent call last):
[1,0]<stderr>:  File "/w/solve.py", line 8, in <module>
[1,0]<stderr>:    raise RuntimeError("singular matrix")
[1,0]<stderr>:RuntimeError: singular matrix
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[5081,1],0]
  Exit code:    1
--------------------------------------------------------------------------
"""
MPI_ABORTED = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 77.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""
FAULTHANDLER = """\
Fatal Python error: Segmentation fault

Thread 0x00007f2 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f1 (most recent call first):
  File "/opt/lib/python3.11/site-packages/numpy/core.py", line 5 in dot
  File "/w/crash.py", line 6 in step
  File "/w/crash.py", line 9 in <module>

Extension modules: numpy.core (total: 1)
"""
NO_CAUSE = ""

CASES = {
    "an exception": (PLAIN, 1, "ValueError: diverged: loss is nan (train.py:41)"),
    "an exception in a library": (
        IN_A_LIBRARY,
        1,
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB (train.py:12)",
    ),
    "a chain": (CAUSED, 1, "RuntimeError: bad settings (train.py:9), from KeyError: 'lr'"),
    "an exception during another": (DURING, 1, "RuntimeError: bad settings (train.py:9)"),
    "a group": (GROUP, 1, "ExceptionGroup: shards failed (3 sub-exceptions), first ValueError: bad shard (run.py:7)"),
    "torchrun": (TORCHRUN, 1, "ValueError: shape mismatch on rank 1 (ddp.py:33)"),
    "torch.multiprocessing": (SPAWNED, 1, "ValueError: worker (main.py:11)"),
    "a pool": (POOL, 1, "ValueError: no square (pool.py:5)"),
    "tracebacks at the end of the interpreter": (
        ASIDES,
        1,
        "FileNotFoundError: [Errno 2] No such file or directory: 'missing.csv' (train.py:3)",
    ),
    "mpirun": (MPIRUN, 1, "RuntimeError: singular matrix (solve.py:8)"),
    "MPI_Abort": (MPI_ABORTED, 77, "MPI_ABORT was invoked on rank 2: 77"),
    "faulthandler": (FAULTHANDLER, None, "Fatal Python error: Segmentation fault (crash.py:6)"),
    "faulthandler under a shell": (FAULTHANDLER, 139, "Fatal Python error: Segmentation fault (crash.py:6)"),
    "a syntax error": (
        '  File "/w/train.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax\n',
        1,
        "SyntaxError: invalid syntax (train.py:3)",
    ),
    "a missing module": (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 1, in <module>\n    import torhc\n'
        "ModuleNotFoundError: No module named 'torhc'\n",
        1,
        "ModuleNotFoundError: No module named 'torhc' (train.py:1)",
    ),
    "a program without a file": (
        "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'x'\n",
        1,
        "ModuleNotFoundError: No module named 'x'",
    ),
    "a bare assertion": (
        'Traceback (most recent call last):\n  File "t.py", line 2, in f\n    assert loss > 0\n           ^^^^^^^^\nAssertionError\n',
        1,
        "AssertionError: assert loss > 0 (t.py:2)",
    ),
    "a message of several lines": (
        "Traceback (most recent call last):\n"
        '  File "t.py", line 2, in f\n    Config(lr=1)\n'
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config\n"
        "seed\n  Field required [type=missing]\n",
        1,
        "ValidationError: 1 validation error for Config seed   Field required [type=missing] (t.py:2)".replace(
            "   ", " "
        ),
    ),
    "a missing script": (
        "python3: can't open file '/w/trian.py': [Errno 2] No such file or directory\n",
        2,
        "python3: can't open file '/w/trian.py': [Errno 2] No such file or directory",
    ),
    "a module for -m": ("/usr/bin/python3: No module named trian\n", 1, "python3: No module named trian"),
    "bash": ("bash: line 1: trian: command not found\n", 127, "trian: command not found"),
    "a script of bash": ("./run.sh: line 7: trian: command not found\n", 127, "trian: command not found (run.sh:7)"),
    "dash": ("/bin/sh: 1: trian: not found\n", 127, "trian: not found"),
    "busybox": ("sh: trian: not found\n", 127, "trian: not found"),
    "zsh": ("zsh:1: command not found: trian\n", 127, "command not found: trian"),
    "env": ("env: 'pyhton': No such file or directory\n", 127, "'pyhton': No such file or directory"),
    "no right to execute": ("bash: line 1: ./sim: Permission denied\n", 126, "./sim: Permission denied"),
    "an unset variable": ("run.sh: line 4: DATA: unbound variable\n", 1, "DATA: unbound variable (run.sh:4)"),
    "a missing library": (
        "./sim: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory\n",
        127,
        "error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory",
    ),
    "C++": (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  mesh is empty\n",
        None,
        "std::runtime_error: mesh is empty",
    ),
    "C++ on macOS": (
        "libc++abi: terminating due to uncaught exception of type std::out_of_range: vector\n",
        None,
        "std::out_of_range: vector",
    ),
    "an assertion in C": (
        "sim: src/grid.c:120: step: Assertion `n > 0' failed.\n",
        None,
        "Assertion `n > 0' failed (grid.c:120)",
    ),
    "the heap": ("double free or corruption (out)\n", None, "double free or corruption (out)"),
    "a sanitizer": (
        "==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60\n    #0 0x4 in main /w/a.c:5\n"
        "SUMMARY: AddressSanitizer: heap-buffer-overflow /w/a.c:5 in main\n",
        1,
        "AddressSanitizer: heap-buffer-overflow (a.c:5)",
    ),
    "Go": (
        "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/w/main.go:8 +0x1d\nexit status 2\n",
        2,
        "panic: runtime error: index out of range [3] with length 3 (main.go:8)",
    ),
    "Rust": (
        "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`\n",
        101,
        "index out of bounds (main.rs:4)",
    ),
    "Java": (
        'Exception in thread "main" java.lang.IllegalStateException: no data\n\tat org.sim.Run.main(Run.java:12)\n',
        1,
        "java.lang.IllegalStateException: no data (Run.java:12)",
    ),
    "Julia": (
        "ERROR: LoadError: UndefVarError: x not defined\nStacktrace:\n [1] top-level scope\nin expression starting at /w/sim.jl:3\n",
        1,
        "ERROR: LoadError: UndefVarError: x not defined (sim.jl:3)",
    ),
    "R": (
        "Error in f(x) : object 'y' not found\nCalls: f\nExecution halted\n",
        1,
        "Error in f(x) : object 'y' not found",
    ),
    "Node": (
        "/w/x.js:3\n  throw new Error('bad')\n  ^\n\nTypeError: bad\n    at Object.<anonymous> (/w/x.js:3:7)\n",
        1,
        "TypeError: bad (x.js:3)",
    ),
    "Fortran": (
        "At line 14 of file heat.f90\nFortran runtime error: End of file\n",
        2,
        "Fortran runtime error: End of file (heat.f90:14)",
    ),
    "a program under a shell": (
        "run.sh: line 3:   812 Segmentation fault      (core dumped) ./sim\n",
        139,
        "Segmentation fault (core dumped) ./sim (run.sh:3)",
    ),
    "argparse": (
        "usage: train.py [-h] --lr LR\ntrain.py: error: the following arguments are required: --lr\n",
        2,
        "train.py: error: the following arguments are required: --lr",
    ),
    "an error before noise": (
        "loading mesh\nFATAL: mesh.h5 has no group /cells\n 45%|####      | 45/100 [00:01<00:02, 30.1it/s]\nGRASS_METRIC loss=1 step=2\n",
        1,
        "FATAL: mesh.h5 has no group /cells",
    ),
    "the last lines": ("one\n\ntwo\nthree\n=====\n", 3, "two | three"),
    "a progress bar": ("\r 1%|#\r 2%|##\rgiving up now\n", 3, "giving up now"),
    "colours": ("\x1b[31mError:\x1b[0m no such mesh \x1b]0;title\x07\n", 1, "Error: no such mesh"),
    "only noise": ("-----\nDEBUG: x\n", 1, NO_CAUSE),
    "nothing": ("", 1, NO_CAUSE),
    "zeros of a file that was given back": ("\x00" * 4096 + "oops, failed\n", 1, "oops, failed"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_end_of_the_output_says_why_a_task_failed(case: str) -> None:
    output, code, cause = CASES[case]
    assert cause_of(output.encode(), code) == cause


def test_of_standard_output_only_what_looks_like_an_error_counts() -> None:
    def of(output: str) -> str:
        return cause_of(output.encode(), 1, only_errors=True)

    assert of(PLAIN) == "ValueError: diverged: loss is nan (train.py:41)"
    assert of("done with epoch 3\nsaved\n") == ""
    assert of("saved\nlicence server denied the request\nbye\n") == "licence server denied the request"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("ValueError: cannot log in with hunter22", "ValueError: cannot log in with [REDACTED]"),
        ("KeyError: API_KEY=abc123", "KeyError: API_KEY=[REDACTED]"),
        ("OSError: postgres://ann:s3cret@db/x refused", "OSError: postgres://ann:[REDACTED]@db/x refused"),
        ("OSError: 401 for Bearer abcdef.123456", "OSError: 401 for Bearer [REDACTED]"),
        ("OSError: hf_abcdefghijklmnopqrstuvwxyz is no token", "OSError: [REDACTED] is no token"),
        (
            "error: unrecognized arguments: --db-password abc --lr 3",
            "error: unrecognized arguments: --db-password [REDACTED] --lr 3",
        ),
        ("InvalidTokenError: signature", "InvalidTokenError: signature"),
    ],
)
def test_secrets_are_hidden(said: str, shown: str) -> None:
    assert cause_of(f"{said}\n".encode(), 1, ["hunter22", "1"]) == shown


def test_a_cause_is_short_whatever_a_task_writes_and_keeps_its_place() -> None:
    long = PLAIN.replace("loss is nan", "x" * 100_000)
    cause = cause_of(long.encode(), 1)
    assert len(cause) <= MOST and cause.endswith("…  (train.py:41)".replace("  ", " "))
    assert len(cause_of(CAUSED.replace("bad settings", "y" * 900).replace("'lr'", "z" * 900).encode(), 1)) <= MOST


@pytest.mark.parametrize(
    "line",
    [
        b"a." * 8000,
        b"[0]:" * 4000,
        b"  |" * 5000,
        b'  File "' * 2000,
        b"Error in " * 1800,
        b"x: line 1: " * 1400,
        b"\x1b]0;" * 4000,
        b"--token " * 2000,
        b"\xff\xfe" * 8000,
        b"://a:" * 3000,
    ],
)
def test_hostile_output_takes_no_time(line: bytes) -> None:
    began = time.process_time()
    for text in (line, b"\n".join([line[:60]] * 500), b"Traceback (most recent call last):\n" + line):
        assert len(cause_of(text, 1)) <= MOST
    assert time.process_time() - began < 1.0


def test_what_this_interpreter_prints_is_understood(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import faulthandler, os, signal, sys\n"
        "def fail():\n"
        "    match sys.argv[1]:\n"
        "        case 'group':\n"
        "            raise ExceptionGroup('many', [ValueError('bad'), KeyError('x')])\n"
        "        case 'crash':\n"
        "            faulthandler.enable()\n"
        "            os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        case 'recursion':\n"
        "            fail()\n"
        "fail()\n"
    )
    for kind, wanted in (
        ("group", "ExceptionGroup: many (2 sub-exceptions), first ValueError: bad (train.py:5)"),
        ("crash", "Fatal Python error: Segmentation fault (train.py:8)"),
        ("recursion", "RecursionError: maximum recursion depth exceeded"),
    ):
        ended = subprocess.run([sys.executable, "-E", str(program), kind], capture_output=True, check=False)
        cause = cause_of(ended.stderr, ended.returncode if ended.returncode > 0 else None)
        assert cause.startswith(wanted)
