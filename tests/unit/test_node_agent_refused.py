"""An agent that redis refuses: its node was removed while the machine was away, or nobody left there."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging, threading
from grass.errors import NotAllowedError
from node.agent.__main__ import ThreadFailureHook

logging.basicConfig()
threading.excepthook = ThreadFailureHook(refused_again=0.3)

def ask() -> None:
    raise NotAllowedError("redis refuses this user: WRONGPASS")

threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
threading.Event().wait(20)
"""


def test_an_agent_that_redis_refuses_says_once_what_to_do_and_waits_before_it_is_started_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 70
    assert done.stderr.count("grass leave") == 1 and "restarts in 0.3 s" in done.stderr
    assert "Traceback" not in done.stderr
