"""The learner: hands out episodes to play, learns from what the actors bring back, and decides when it is good enough.

A message is one line of JSON. An actor asks for work by bringing its last episode (or null); it gets the weights and
an episode's number, which is also the seed. Which actor plays which episode, and when, therefore changes nothing in
the result, and an episode whose actor died is simply played again by another.
"""

import json
import os
import socketserver
import sys
import threading
from collections import deque

import numpy as np
import peers
import policy

SEED = int(os.environ.get("SEED", "1"))
BATCH = int(os.environ.get("BATCH", "16"))
TARGET = float(os.environ.get("TARGET", "195"))
WINDOW = 50
MOST_EPISODES = int(os.environ.get("MOST_EPISODES", "3000"))


class Learning:
    """Batches of episodes: out to the actors, back in any order, learned from in order of their numbers."""

    def __init__(self):
        self.changed = threading.Condition()
        self.weights = policy.fresh(SEED)
        self.optimiser = policy.Adam(rate=0.02)
        self.lengths = deque(maxlen=WINDOW)
        self.played = 0
        self.over = False
        self.new_batch()

    def new_batch(self):
        self.to_play = deque(range(self.played, self.played + BATCH))
        self.brought = {}

    @property
    def mean_return(self):
        return float(np.mean(self.lengths)) if self.lengths else 0.0

    def take(self):
        """The number of an episode to play; None when there is nothing more to do."""
        with self.changed:
            self.changed.wait_for(lambda: self.to_play or self.over)
            return None if self.over else self.to_play.popleft()

    def put_back(self, number):
        with self.changed:
            self.to_play.append(number)
            self.changed.notify()

    def bring(self, number, episode):
        with self.changed:
            self.brought[number] = episode
            if len(self.brought) == BATCH:
                self.learn([self.brought[number] for number in sorted(self.brought)])
                self.changed.notify_all()

    def learn(self, episodes):
        self.weights = self.optimiser.step(self.weights, policy.policy_gradient(self.weights, episodes))
        self.lengths.extend(len(episode["actions"]) for episode in episodes)
        self.played += len(episodes)
        window = len(self.lengths)
        print(f"{self.played} episodes: mean return {self.mean_return:.1f} over the last {window}", flush=True)
        solved = window == WINDOW and self.mean_return >= TARGET
        self.over = solved or self.played >= MOST_EPISODES
        self.new_batch()

    def result(self):
        with self.changed:
            self.changed.wait_for(lambda: self.over)
            return self.mean_return


class Conversation(socketserver.StreamRequestHandler):
    """One actor. What it was last given, and has not brought back, is in ``number``."""

    disable_nagle_algorithm = True
    timeout = 30  # seconds until an actor that says nothing counts as gone

    def handle(self):
        learning, number = self.server.learning, None
        try:
            while line := self.rfile.readline(4 * 1024 * 1024):
                episode = json.loads(line)
                if number is not None:
                    arrays = {name: np.array(values) for name, values in episode.items()}
                    learning.bring(number, arrays)
                number = learning.take()
                self.reply(learning, number)
                if number is None:
                    return
        except OSError:
            pass  # the actor is gone; `finally` gives its episode to another
        finally:
            if number is not None:
                learning.put_back(number)

    def reply(self, learning, number):
        weights = None if number is None else {name: array.tolist() for name, array in learning.weights.items()}
        self.wfile.write(json.dumps({"episode": number, "weights": weights}).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """Leaving it waits for its conversations, so every actor hears that it is over."""

    allow_reuse_address = True
    daemon_threads = False


def main():
    learning = Learning()
    host, _ = peers.find("learner", "rollouts")
    with Server((host, int(os.environ["GRASS_PORT_ROLLOUTS"])), Conversation) as server:
        server.learning = learning
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"learning with seed {SEED}, {BATCH} episodes at a time", flush=True)
        reached = learning.result()
        server.shutdown()
    print(f"mean return {reached:.1f} over the last {WINDOW} episodes (wanted: at least {TARGET:.0f})", flush=True)
    return 0 if reached >= TARGET else 64  # 64 tells Grass not to try again: the seed would lead here once more


if __name__ == "__main__":
    sys.exit(main())
