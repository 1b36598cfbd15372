"""Fit a line to noisy points by gradient descent: quick, and it diverges when the learning rate is too high."""

from __future__ import annotations

import argparse
import math
import os
import random
from pathlib import Path

import grass

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--steps", type=int, default=40)
options = parser.parse_args()

noise = random.Random(options.seed)
points = [(x / 10, 3 * x / 10 + 1 + noise.gauss(0, 0.1)) for x in range(30)]
slope = offset = 0.0
for step in range(options.steps):
    errors = [(slope * x + offset - y, x) for x, y in points]
    loss = sum(error * error for error, _ in errors) / len(points)
    if not math.isfinite(loss) or loss > 1e6:
        raise ValueError(f"diverged: loss is {loss:.3g} at step {step}")
    grass.report(step=step, loss=loss)
    slope -= options.lr * sum(error * x for error, x in errors) / len(points)
    offset -= options.lr * sum(error for error, _ in errors) / len(points)

(Path(os.environ["GRASS_OUTPUT"]) / f"{os.environ['GRASS_TASK']}.txt").write_text(f"{slope} {offset}\n")
