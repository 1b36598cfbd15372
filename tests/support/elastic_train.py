"""A training loop with a checkpoint, for torchrun. It knows nothing of Grass."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main(checkpoint: Path, stop: Path) -> None:
    """Train until the file ``stop`` exists."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    step = torch.tensor(torch.load(checkpoint)["step"] if rank == 0 and checkpoint.exists() else 0)
    dist.broadcast(step, 0)
    begun = int(step)
    ranks = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(ranks, torch.tensor([int(os.environ["GRASS_INDEX"])]))
    order = "-".join(str(int(each)) for each in ranks)
    print(f"begin size={size} order={order} restarts={os.environ['TORCHELASTIC_RESTART_COUNT']} step={begun}")
    over = torch.zeros(1)
    while not over:
        step += 1
        if rank == 0:
            torch.save({"step": int(step)}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)
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
