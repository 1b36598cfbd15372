"""One task of the array: which of the many it is stands in its environment."""

import os

TOTAL = 1_000_000


def main():
    index, replicas = int(os.environ["GRASS_INDEX"]), int(os.environ["GRASS_REPLICAS"])
    numbers = range(index * TOTAL // replicas + 1, (index + 1) * TOTAL // replicas + 1)
    print(f"{numbers[0]} to {numbers[-1]}: {sum(numbers)}")


if __name__ == "__main__":
    main()
