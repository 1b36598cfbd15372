"""What stock frameworks expect to see: environment, files and arguments, rendered from the job's memberships. Pure.

One module per framework; ``registry`` names them all. Called by the node-agent (``node.membership``). Nothing here
opens a file, and the rest of Grass knows members, not frameworks. The contracts are those of docs/guide/frameworks.md.
"""
