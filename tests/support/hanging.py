"""Programs that stand still in the ways in which trainings do, without torch. Each prints ``up`` before it does."""

from __future__ import annotations

import sys

PROGRAM = """
import os, queue, signal, socket, sys, threading
import grass

def all_reduce():  # waits for a peer that does not come
    here, there = socket.socketpair()
    print("up", flush=True)
    here.recv(1)

def deadlock():
    lock = threading.Lock()
    lock.acquire()
    print("up", flush=True)
    lock.acquire()

def endless_loop():
    print("up", flush=True)
    while True:
        pass

def next_batch():
    print("up", flush=True)
    queue.Queue().get()

def stopped():
    print("up", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

def on_share():  # in state D, as on a file server that does not answer: it waits until its child runs a program
    import ctypes
    libc = ctypes.CDLL(None)
    print("up", flush=True)
    if libc.vfork() == 0:
        while True:  # a signal ends one pause; a child that went on would use up the memory of its parent
            libc.pause()

def train():
    grass.report(step=7, loss=0.5)
    globals()[sys.argv[1]]()

train()
"""


def command(kind: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, kind]
