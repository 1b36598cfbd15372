"""One of the workers: pulls the parameters, computes gradients on its own share of the images, pushes them."""

import os
import sys

import model
import numpy as np
import wire

TARGET = 0.93
BATCH = 32
DO_NOT_RESTART = 64  # to Grass: training again from here would not help


def train(ask, first_epoch, parameters, epochs, share):
    """``ask(op, **arrays)`` is one request to the server; every step's reply carries the parameters for the next."""
    x, y = share
    for epoch in range(first_epoch, epochs):
        order = np.random.default_rng(epoch).permutation(len(y))
        losses = []
        for rows in np.array_split(order, max(1, len(order) // BATCH)):
            loss, slopes = model.gradients(parameters, x[rows], y[rows])
            parameters = ask("step", **slopes)
            losses.append(loss)
        ask("epoch", epoch=np.array(epoch + 1))
        print(f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4f}", flush=True)


def main():
    index, workers = int(os.environ["GRASS_INDEX"]), int(os.environ["GRASS_REPLICAS"])
    train_x, train_y, _, _ = model.load()
    share = train_x[index::workers], train_y[index::workers]
    with wire.connect("server", "params") as connection:

        def ask(op, **arrays):
            wire.send(connection, op=np.array(op), worker=np.array(index), **arrays)
            return wire.receive(connection)

        start = ask("join")
        first_epoch = int(start.pop("epoch"))
        print(f"worker {index} of {workers}: {len(share[1])} images, from epoch {first_epoch + 1}", flush=True)
        train(ask, first_epoch, start, int(os.environ.get("EPOCHS", "10")), share)
        end = ask("finish")
    if not end["last"]:
        return 0
    result = float(end["accuracy"])
    print(f"test accuracy {result:.4f} (wanted: at least {TARGET})", flush=True)
    return 0 if result >= TARGET else DO_NOT_RESTART


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"lost the server: {error}")  # exit code 1: Grass starts this worker again, and it joins
