"""Fits a line with several processes. Ordinary torch: it knows nothing of Grass, and continues from its checkpoint."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

CHECKPOINT, STEPS = Path(os.environ["CHECKPOINT"]), int(os.environ["STEPS"])


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    weights, step = torch.zeros(2), torch.tensor(0)
    if rank == 0 and CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT)
        weights, step = saved["weights"], torch.tensor(saved["step"])
    dist.broadcast(weights, 0)
    dist.broadcast(step, 0)
    print(f"rank {rank} of {size} begins at step {int(step)}")
    while step < STEPS:
        x = torch.rand(64)
        error = weights[0] * x + weights[1] - (3 * x + 1)
        gradient = torch.stack([(error * x).mean(), error.mean()])
        dist.all_reduce(gradient)
        weights -= gradient / size
        step += 1
        if rank == 0:
            save(weights, int(step))
        time.sleep(0.05)
    if rank == 0:
        print(f"y = {weights[0]:.2f} x + {weights[1]:.2f} after {int(step)} steps")
    dist.destroy_process_group()


def save(weights: torch.Tensor, step: int) -> None:
    new = CHECKPOINT.with_suffix(".new")
    torch.save({"weights": weights, "step": step}, new)
    new.rename(CHECKPOINT)


if __name__ == "__main__":
    main()
