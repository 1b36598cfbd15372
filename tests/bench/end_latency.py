"""The task ends until the client that waits for it knows. Peer: HyperQueue, whose client looks once a second.

The task's last act is to read the clock, so the end of its process is in the figure. Tasks live for anything up to a
second, the same for both in a round, so that no client is favoured by when it looks.
"""

from __future__ import annotations

import figures
import latency


def main() -> None:
    options = figures.arguments(__doc__, rounds=40).parse_args()
    title = "task ends → the waiting client knows"
    latency.compare(options, title, "p50 at most 5 ms", "stamped", "known", longest=1000)


if __name__ == "__main__":
    main()
