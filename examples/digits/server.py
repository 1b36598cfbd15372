"""The parameter server: holds the model, applies the gradients that workers push, and judges the result.

It serves until it is stopped. Grass does that once the workers, which decide about success, have ended.
"""

import os
import socketserver
import threading
from pathlib import Path

import model
import numpy as np
import wire

RATE = float(os.environ.get("RATE", "0.1"))


class Training:
    """The model and how far each worker is. One lock: a step is tens of microseconds."""

    def __init__(self, workers):
        self.lock = threading.Lock()
        self.parameters = model.fresh_parameters()
        self.epochs_done = [0] * workers
        self.finished = [False] * workers
        _, _, self.test_x, self.test_y = model.load()

    def answer(self, message):
        """One request of one worker → the reply. A worker that was restarted says `join` and goes on where it was."""
        worker = int(message["worker"])
        with self.lock:
            match str(message["op"]):
                case "join":
                    return {"epoch": self.epochs_done[worker], **self.parameters}
                case "step":
                    self.parameters = {name: old - RATE * message[name] for name, old in self.parameters.items()}
                    return self.parameters
                case "epoch":
                    self.epochs_done[worker] = int(message["epoch"])
                    print(
                        f"epoch {int(message['epoch'])} of worker {worker}: accuracy {self.measure():.4f}", flush=True
                    )
                    return {}
                case "finish":
                    return self.finish(worker)
                case other:
                    raise ValueError(f"unknown request {other!r}")

    def finish(self, worker):
        """The last worker to finish gets the result to judge; the others need not wait for it."""
        self.finished[worker] = True
        if not all(self.finished):
            return {"last": np.array(False)}
        result = self.measure()
        print(f"test accuracy {result:.4f} on {len(self.test_y)} images that no worker has seen", flush=True)
        self.keep()
        return {"last": np.array(True), "accuracy": np.array(result)}

    def keep(self):
        """Before the last worker is answered: with its end the job is over. `grass job pull digits` fetches it."""
        if folder := os.environ.get("GRASS_OUTPUT"):
            np.savez(Path(folder) / "model.npz", **self.parameters)

    def measure(self):
        return model.accuracy(self.parameters, self.test_x, self.test_y)


class Conversation(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        try:
            while True:
                wire.send(self.request, **self.server.training.answer(wire.receive(self.request)))
        except OSError:
            pass  # the worker ended, or is being restarted and will join again


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main():
    training = Training(int(os.environ["WORKERS"]))
    host, _ = wire.find("server", "params")
    port = int(os.environ["GRASS_PORT_PARAMS"])
    with Server((host, port), Conversation) as server:
        server.training = training
        print(f"serving parameters on {host}:{port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
