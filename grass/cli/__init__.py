"""The `grass` command: one file per noun, each command parse → client call → render; ``output`` alone prints."""

import gc

gc.set_threshold(50_000, 20, 50)
"""What is imported stays; to look for garbage in it again and again takes 7 ms of a call."""
