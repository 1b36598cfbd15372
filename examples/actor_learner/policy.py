"""A small policy network for CartPole, 4 → 32 → 2, and how it learns from whole episodes. numpy only."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

INPUTS, HIDDEN, ACTIONS = 4, 32, 2
DISCOUNT = 0.99


def fresh(seed):
    random = np.random.default_rng(seed)
    return {
        "w1": random.normal(0, 0.5, (INPUTS, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": random.normal(0, 0.1, (HIDDEN, ACTIONS)),
        "b2": np.zeros(ACTIONS),
    }


def probabilities(weights, observations):
    hidden = np.tanh(observations @ weights["w1"] + weights["b1"])
    scores = hidden @ weights["w2"] + weights["b2"]
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return hidden, odds / odds.sum(axis=-1, keepdims=True)


def returns(length):
    """What was still to come, discounted, at each step of an episode of so many steps: CartPole pays 1 per step."""
    return (1 - DISCOUNT ** np.arange(length, 0, -1)) / (1 - DISCOUNT)


def policy_gradient(weights, episodes):
    """REINFORCE: the direction that makes better-than-usual actions likelier. ``usual`` is judged per time step."""
    observations = np.concatenate([episode["observations"] for episode in episodes])
    actions = np.concatenate([episode["actions"] for episode in episodes])
    gains = [returns(len(episode["actions"])) for episode in episodes]
    steps = np.concatenate([np.arange(len(gain)) for gain in gains])
    gain = np.concatenate(gains)
    usual = np.bincount(steps, gain) / np.bincount(steps)
    advantage = gain - usual[steps]
    advantage /= advantage.std() + 1e-8
    hidden, guess = probabilities(weights, observations)
    error = -guess
    error[np.arange(len(actions)), actions] += 1
    error *= advantage[:, None] / len(actions)
    back = (error @ weights["w2"].T) * (1 - hidden**2)
    return {"w1": observations.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error, "b2": error.sum(axis=0)}


class Adam:
    """Steps uphill whose size does not depend on the scale of the gradient (Kingma and Ba, 2015)."""

    def __init__(self, rate):
        self.rate, self.steps, self.mean, self.square = rate, 0, {}, {}

    def step(self, weights, slopes):
        self.steps += 1
        moved = {}
        for name, slope in slopes.items():
            mean = self.mean[name] = 0.9 * self.mean.get(name, 0) + 0.1 * slope
            square = self.square[name] = 0.999 * self.square.get(name, 0) + 0.001 * slope**2
            scale = np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8
            moved[name] = weights[name] + self.rate * (mean / (1 - 0.9**self.steps)) / scale
        return moved
