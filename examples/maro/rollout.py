"""What a program that was written for MARO sees: the name of its job and, where it is set, its own place in it."""

import os
import sys


def main():
    role = sys.argv[1]
    print(f"{role} {os.environ.get('COMPONENT_INDEX', '?')} of {os.environ['JOB_NAME']}")


if __name__ == "__main__":
    main()
