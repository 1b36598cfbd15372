"""The cache of a Mars worker whose pyarrow has no plasma store: Mars's shared memory, bounded as the store would be.

Mars 0.7 and later loads it in each of its processes, because its configuration names it (``third_party_modules``).
Plasma left pyarrow with version 12, and pymars does not require pyarrow. Mars's own backend ``shared_memory`` takes no
size.
"""

import logging

from mars.resource import virtual_memory
from mars.storage.base import register_storage_backend
from mars.storage.shared_memory import SharedMemoryStorage
from mars.utils import calc_size_by_str

log = logging.getLogger("grass.mars")


class BoundedSharedMemory(SharedMemoryStorage):
    """Replaces the backend ``plasma``. Mars keeps what it stores below ``size``, and spills or refuses the rest."""

    name = "plasma"

    def __init__(self, capacity):
        super().__init__()
        self._capacity = capacity

    @classmethod
    async def setup(cls, store_memory, **_of_plasma):
        capacity = int(calc_size_by_str(store_memory, virtual_memory().total))
        log.warning("grass: pyarrow has no plasma store here; the cache of %d bytes is in shared memory", capacity)
        return {"capacity": capacity}, {}

    @property
    def size(self):
        return self._capacity


try:
    import pyarrow.plasma  # noqa: F401 (only whether it is there)
except ImportError:
    register_storage_backend(BoundedSharedMemory)
