"""The `grass` command: one file per noun, each command parse → client call → render; ``output`` alone prints."""
