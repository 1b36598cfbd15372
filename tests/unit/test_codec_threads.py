"""Decoders that several threads build at once, in a process of their own: without the lock, it ends with a crash."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from dataclasses import make_dataclass
from grass.wire.codec import Form
sys.setswitchinterval(1e-6)
for turn in range(30):
    shape = make_dataclass("Leaf", [("x", int)])
    for depth in range(12):
        shape = make_dataclass(f"Node{depth}", [("a", int), ("below", shape | None), ("z", int)])
    text = '{"a": 1, "below": {"a": 1, "below": null, "z": 2}, "z": 2}'
    plain = {"a": 1, "below": {"a": 1, "below": None, "z": 2}, "z": 2}
    barrier = threading.Barrier(8)
    def work(form, is_text):
        barrier.wait()
        form.decode(text) if is_text else form.convert(plain)
    threads = [threading.Thread(target=work, args=(Form(shape), is_text)) for is_text in (True, False) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_threads_that_build_decoders_of_one_type_at_once_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
