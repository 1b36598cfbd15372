"""The table of figures: what it names exists in the samples, and the page can format it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from grass.dashboard.curves import node_charts
from grass.model.figures import GPU, OF_JOB, OF_NODE, OF_TASK, PORT, Figure, Unit
from grass.wire.usage import GpuUsage, NodeSample, RdmaUsage, TaskSample
from grass.wire.usage_views import Curves
from master.monitor.figures import of_node

CHARTS = Path(__file__).parents[2] / "grass" / "dashboard" / "page" / "charts.js"
SAMPLES = {"": NodeSample, GPU: GpuUsage, PORT: RdmaUsage}


def fields(sample: type[msgspec.Struct]) -> set[str]:
    return set(sample.__struct_fields__)


def test_each_figure_is_a_field_of_its_sample() -> None:
    assert [each for each in OF_NODE if each.name not in fields(SAMPLES[each.devices])] == []
    assert [each for each in (*OF_TASK, *OF_JOB) if each.name not in fields(TaskSample)] == []


def test_the_page_formats_each_unit() -> None:
    units = re.search(r"const UNITS = \{(.*?)\n\};", CHARTS.read_text(), re.DOTALL)
    assert units is not None
    known = set(re.findall(r"\b([a-z]+)(?=:|,)", units[1]))
    assert {unit.value for unit in Unit} <= known


def test_a_curve_is_found_again_by_its_name_and_device() -> None:
    names = {GPU: "11", PORT: "mlx5.0/1", "": ""}
    for figure in OF_NODE:
        curve = figure.curve(names[figure.devices])
        assert [each for each in OF_NODE if each.device(curve) is not None] == [figure]
        assert figure.device(curve) == names[figure.devices]
    assert Figure("power", Unit.WATTS, "", devices=GPU).curve("3") == "gpu3.power"


def test_what_the_monitor_keeps_of_a_node_is_what_its_page_draws() -> None:
    gpu = GpuUsage(id=3, utilisation=1, memory=2, power=3, temperature=4, nvlink_sent=5, nvlink_received=6)
    sample = NodeSample(
        cpu=1,
        load=2,
        memory=3,
        memory_total=4,
        disk_used=5,
        disk_total=6,
        disk_read=7,
        disk_written=8,
        network_sent=9,
        network_received=10,
        power=11,
        gpus=(gpu,),
        rdma=(RdmaUsage("mlx5_0/1", 12, 13),),
    )
    kept = of_node(sample)
    assert len(kept) == len([each for each in OF_NODE if each.chart])
    charts = node_charts(Curves(0.0, 2.0, {name: (value,) for name, value in kept.items()}))
    drawn = sorted(value for chart in charts for series in chart["series"] for value in series["values"])
    assert drawn == sorted(kept.values())
    assert [(chart["title"], chart["unit"], [each["name"] for each in chart["series"]]) for chart in charts] == [
        ("CPU", "percent", ["cpu"]),
        ("Memory", "bytes", ["memory"]),
        ("GPU", "percent", ["gpu 3"]),
        ("GPU memory", "bytes", ["gpu 3"]),
        ("Network", "rate", ["sent", "received"]),
        ("RDMA", "rate", ["mlx5_0/1 sent", "mlx5_0/1 received"]),
        ("NVLink", "rate", ["gpu 3 sent", "gpu 3 received"]),
        ("Disks", "rate", ["read", "written"]),
        ("Disk in use", "bytes", ["used"]),
        ("Load", "number", ["load"]),
        ("Power", "watts", ["cpu", "gpu 3"]),
        ("Temperature", "celsius", ["gpu 3"]),
    ]
