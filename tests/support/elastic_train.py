"""A training loop with a checkpoint, for torchrun. It knows nothing of Grass."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist

EVERY = int(os.environ.get("CHECKPOINT_EVERY", "1"))


def newest(checkpoint: Path) -> int:
    """Return the step of the newest whole checkpoint. Each is a file of its own: a share may refuse a rename."""
    steps = [int(path.suffix[1:]) for path in checkpoint.parent.glob(f"{checkpoint.name}.*")]
    for step in sorted(steps, reverse=True):
        with suppress(Exception):
            return int(torch.load(checkpoint.with_suffix(f".{step}"))["step"])
    return 0


def main(checkpoint: Path, stop: Path) -> None:
    """Train until the file ``stop`` exists."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    step = torch.tensor(newest(checkpoint) if rank == 0 else 0)
    dist.broadcast(step, 0)
    begun = int(step)
    ranks = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(ranks, torch.tensor([int(os.environ["GRASS_INDEX"])]))
    order = "-".join(str(int(each)) for each in ranks)
    print(f"begin size={size} order={order} restarts={os.environ['TORCHELASTIC_RESTART_COUNT']} step={begun}")
    over = torch.zeros(1)
    while not over:
        step += 1
        if rank == 0 and int(step) % EVERY == 0:
            torch.save({"step": int(step)}, checkpoint.with_suffix(f".{int(step)}"))
        if rank == 0:
            over[0] = float(stop.exists())
        total = torch.ones(1)
        dist.all_reduce(total)
        assert int(total) == size
        dist.broadcast(over, 0)
        if int(step) == begun + 3:
            print(f"goes on size={size} order={order}")
        time.sleep(0.02)
    dist.destroy_process_group()
    print(f"done size={size} step={int(step)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
