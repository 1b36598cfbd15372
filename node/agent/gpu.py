"""The node's GPUs, by NVML. The only module that imports it; where it or the driver is missing there are none."""

from __future__ import annotations

from typing import Any


def devices() -> list[dict[str, Any]]:
    """``{"id", "name", "memory"}`` of each, by device index; memory in bytes."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    text = name.decode() if isinstance(name, bytes) else str(name)
    return {"id": index, "name": text, "memory": int(nvml.nvmlDeviceGetMemoryInfo(handle).total)}
