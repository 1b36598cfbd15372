"""An actor: plays the episodes that the learner asks for, with the weights that come along, until there are no more."""

import json
import socket
import sys

import gymnasium
import numpy as np
import peers
import policy


def play(environment, weights, number):
    """One episode of CartPole, the same for the same weights and number."""
    random = np.random.default_rng(number)
    observation, _ = environment.reset(seed=number)
    observations, actions, over = [], [], False
    while not over:
        _, chances = policy.probabilities(weights, observation)
        action = int(random.random() < chances[1])
        observations.append([float(value) for value in observation])
        actions.append(action)
        observation, _, fallen, truncated, _ = environment.step(action)
        over = fallen or truncated
    return {"observations": observations, "actions": actions}


def main():
    environment = gymnasium.make("CartPole-v1")
    played = steps = 0
    episode = None
    with (
        socket.create_connection(peers.find("learner", "rollouts"), timeout=60) as connection,
        connection.makefile("rwb") as stream,
    ):
        while True:
            stream.write(json.dumps(episode).encode() + b"\n")
            stream.flush()
            reply = json.loads(stream.readline() or '{"episode": null}')
            if reply["episode"] is None:
                break
            weights = {name: np.array(values) for name, values in reply["weights"].items()}
            episode = play(environment, weights, reply["episode"])
            played, steps = played + 1, steps + len(episode["actions"])
    print(f"played {played} episodes, {steps} steps", flush=True)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"lost the learner: {error}")
