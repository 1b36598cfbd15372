"""What runs inside tasks: files that users may copy, and ``library/`` with the programs that Grass gives to tasks.

All of it runs with old Pythons and without the rest of Grass.
"""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parent / "library"
