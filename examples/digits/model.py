"""The classifier, 64 → 32 → 10 with ReLU, and the data it learns from. numpy only; scikit-learn brings the digits."""

import os

# Five processes share the machine: one thread each is faster than each taking all cores. Before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

PIXELS, HIDDEN, CLASSES = 64, 32, 10


def load():
    """1,797 images of handwritten digits (UCI), shuffled the same way everywhere: train x, y; test x, y."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order] / 16.0, labels[order]
    cut = len(labels) * 4 // 5
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def fresh_parameters(seed=0):
    random = np.random.default_rng(seed)
    return {
        "w1": random.normal(0, np.sqrt(2 / PIXELS), (PIXELS, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": random.normal(0, np.sqrt(2 / HIDDEN), (HIDDEN, CLASSES)),
        "b2": np.zeros(CLASSES),
    }


def predict(parameters, x):
    hidden = np.maximum(x @ parameters["w1"] + parameters["b1"], 0)
    scores = hidden @ parameters["w2"] + parameters["b2"]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, weights / weights.sum(axis=1, keepdims=True)


def accuracy(parameters, x, y):
    return float((predict(parameters, x)[1].argmax(axis=1) == y).mean())


def gradients(parameters, x, y):
    """Mean cross-entropy of a batch, and its derivatives by parameter name."""
    hidden, guess = predict(parameters, x)
    rows = np.arange(len(y))
    loss = float(-np.log(guess[rows, y] + 1e-12).mean())
    error = guess.copy()
    error[rows, y] -= 1
    error /= len(y)
    back = (error @ parameters["w2"].T) * (hidden > 0)
    return loss, {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error, "b2": error.sum(axis=0)}
