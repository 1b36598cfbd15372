"""Submit until the first instruction of the task, idle cluster. Peer: HyperQueue.

From before the client is called until `main` of a small C program reads the clock: sealing, HTTP, the durable write,
planning, the order to the node and the start of the process are all in it.
"""

from __future__ import annotations

import figures
import latency


def main() -> None:
    parser = figures.arguments(__doc__, rounds=40)
    parser.add_argument("--ladder", action="store_true", help="print the steps on the way, too")
    options = parser.parse_args()
    title = "submit → first instruction of the task"
    bar = "p50 at most 2.2 × HyperQueue after a rest, 6 ms one after another"
    latency.compare(options, title, bar, "submitted", "stamped", longest=0, ladder=options.ladder)


if __name__ == "__main__":
    main()
