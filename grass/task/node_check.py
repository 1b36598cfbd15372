"""Measures a node for `grass node check`: runs on the node, beside the task that holds it, and knows nothing of Grass.

Reads requests from stdin, one JSON object per line, and writes an answer for each: ``look`` (level 0), ``load`` (level
1), ``serve`` and ``meet`` (level 2: the two sides of a pair). Takes torch with CUDA and NVML (nvidia-ml-py) where they
are, otherwise numpy or plain Python, and TCP. The client of a check (``grass.api.check_session``) reads this file and
sends it to nodes.
"""

import fcntl
import glob
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

MIB = 1 << 20
BULK = 16 * MIB
ROUNDS = 2
XIDS = {48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120}
"""Messages of NVIDIA's driver that mean a broken device, by NVIDIA's list; the others come from programs, too."""
FOREIGN = 0.3
"""Share of a device's memory that others may hold."""
SLOWDOWNS = {0x8: "hardware slowdown", 0x40: "thermal slowdown", 0x80: "power brake", 0x20: "software thermal slowdown"}


class Report:
    """Collects the answer to one request."""

    def __init__(self):
        self.problems, self.times, self.figures = [], {}, {}
        self.model, self.devices = "", []
        self._since = time.monotonic()

    def seconds(self):
        return max(1e-3, time.monotonic() - self._since)

    def problem(self, cause, text, device=None, grave=True):
        self.problems.append({"cause": cause, "text": text[:480], "device": device, "grave": grave})

    def attempt(self, cause, what, work, *arguments):
        """Do a part of a check; that it fails is a finding of its own."""
        try:
            work(self, *arguments)
        except Exception as error:
            self.problem(cause, "%s: failed (%s: %s)" % (what, type(error).__name__, error))

    def answer(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


def text_of(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def number_of(path):
    text = text_of(path)
    return int(text) if text.lstrip("-").isdigit() else None


# level 0


def look(request):
    report = Report()
    nic = interface_of(request["address"])
    before = nic_errors(nic)
    report.attempt("gpu", "GPUs", look_at_devices, request.get("devices", 0))
    if not request.get("alone", True):  # its tasks may hold it
        report.problems = [
            dict(each, grave=each["grave"] and "held by" not in each["text"]) for each in report.problems
        ]
    report.attempt("gpu", "messages of the GPU driver", look_for_xids)
    report.attempt("host", "disk", look_at_disk, os.environ.get("GRASS_SCRATCH") or ".")
    report.attempt("host", "memory", look_at_memory)
    report.attempt("host", "ports", look_at_ports, request["address"])
    report.attempt("nic", "network", look_at_nic, nic, before)
    answer = report.answer()
    answer["clock"] = time.time()
    return answer


def nvml():
    """Return NVML's module, opened; None where nvidia-ml-py is not installed. Raises if the driver does not work."""
    try:
        import pynvml
    except ImportError:
        return None
    pynvml.nvmlInit()
    return pynvml


def look_at_devices(report, expected):
    if not expected and not os.path.exists("/dev/nvidiactl"):
        return
    library = nvml()
    if library is None:
        look_with_program(report, expected)
        return
    count = library.nvmlDeviceGetCount()
    report.devices = list(range(count))
    if count < expected:
        report.problem("gpu", "only %d of %d GPUs are present" % (count, expected))
    for device in range(count):
        try:
            look_at_device(report, library, device)
        except library.NVMLError as error:
            report.problem("gpu", "gpu %d does not answer: %s" % (device, error), device)


def look_with_program(report, expected):
    """Ask nvidia-smi, which comes with the driver, where nvidia-ml-py is not installed."""
    fields = "index,name,memory.used,memory.total,ecc.errors.uncorrected.volatile.total,temperature.gpu"
    asked = ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2, check=False)
    except OSError:
        report.problem("gpu", "neither nvidia-ml-py nor nvidia-smi is there; its GPUs were not looked at", grave=False)
        return
    lines = said.stdout.decode("utf-8", "replace").strip().split("\n")
    if said.returncode:
        report.problem("gpu", "the GPU driver does not work: %s" % (lines[:1] or [said.returncode])[0])
        return
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    report.devices = [int(row[0]) for row in rows]
    if len(rows) < expected:
        report.problem("gpu", "only %d of %d GPUs are present" % (len(rows), expected))
    for index, name, used, total, ecc, temperature in rows:
        device, report.model = int(index), name
        held(report, device, float(used), float(total))
        if ecc.isdigit() and int(ecc):
            report.problem("gpu", "gpu %d: %s uncorrected ECC errors" % (device, ecc), device)
        if temperature.isdigit():
            report.figures["temperature C gpu%d" % device] = float(temperature)


def held(report, device, used, total):
    if used > FOREIGN * total:
        share = 100.0 * used / total
        report.problem("gpu", "gpu %d: %.0f %% of its memory is held by other programs" % (device, share), device)


def look_at_device(report, library, device):
    handle = library.nvmlDeviceGetHandleByIndex(device)
    name = library.nvmlDeviceGetName(handle)
    report.model = name.decode() if isinstance(name, bytes) else name
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    held(report, device, memory.used, memory.total)
    for what, question in (
        ("uncorrected ECC errors", lambda: library.nvmlDeviceGetTotalEccErrors(handle, 1, 0)),
        ("pending retired pages", lambda: library.nvmlDeviceGetRetiredPagesPendingStatus(handle)),
        ("rows that could not be remapped", lambda: library.nvmlDeviceGetRemappedRows(handle)[3]),
    ):
        found = supported(library, question)
        if found:
            report.problem("gpu", "gpu %d: %d %s" % (device, found, what), device)
    look_at_clocks(report, library, handle, device, "")


def look_at_clocks(report, library, handle, device, when):
    """``when``: such as `` under load``. A cap of its power is what a device does under load; it is no fault."""
    reasons = supported(library, lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
    for bit, name in sorted(SLOWDOWNS.items()):
        if reasons & bit:
            report.problem("gpu", "gpu %d: throttled%s (%s)" % (device, when, name), device)
    for what, question in (
        ("clock MHz", lambda: library.nvmlDeviceGetClockInfo(handle, 1)),
        ("power W", lambda: library.nvmlDeviceGetPowerUsage(handle) / 1000.0),
        ("temperature C", lambda: library.nvmlDeviceGetTemperature(handle, 0)),
    ):
        found = supported(library, question)
        if found is not None:
            report.figures["%s gpu%d%s" % (what, device, when)] = float(found)
    limit = supported(library, lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle))
    normal = supported(library, lambda: library.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    if limit and normal and limit < 0.95 * normal and not when:
        text = "gpu %d: its power is limited to %d W, by default %d W" % (device, limit // 1000, normal // 1000)
        report.problem("gpu", text, device, grave=False)


def supported(library, question):
    try:
        return question()
    except (library.NVMLError, AttributeError):
        return None


def look_for_xids(report):
    """Read the kernel's messages since boot, where this user may."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    found = {}
    try:
        for _ in range(20000):
            try:
                line = os.read(log, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # older messages were overwritten meanwhile
                continue
            except OSError:
                break
            xid = re.search(r"NVRM: Xid \((?:PCI:)?([^)]*)\): (\d+)", line)
            if xid:
                found[int(xid.group(2)), xid.group(1)] = True
    finally:
        os.close(log)
    for number, bus in sorted(found)[:10]:
        report.problem("gpu", "XID %d of the GPU at %s since boot" % (number, bus), grave=number in XIDS)


def look_at_disk(report, folder):
    left = os.statvfs(folder)
    free = left.f_bavail * left.f_frsize
    report.figures["disk free GiB"] = round(free / float(1 << 30), 1)
    if free < 256 * MIB:
        report.problem("host", "its disk is full: %d MiB are free in %s" % (free // MIB, folder))
        return
    path = os.path.join(folder, ".grass-check-%d" % os.getpid())
    block, size, start = os.urandom(MIB), 0, time.monotonic()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while size < 32 * MIB and time.monotonic() - start < 0.6:
            size += os.write(file, block)
        os.fsync(file)
    finally:
        os.close(file)
        os.unlink(path)
    speed = size / float(MIB) / max(time.monotonic() - start, 1e-6)
    report.figures["disk write MiB/s"] = round(speed, 1)
    if speed < 10:
        report.problem("host", "its disk writes only %.1f MiB/s in %s" % (speed, folder), grave=False)


def look_at_memory(report):
    memory = dict(re.findall(r"(\w+): *(\d+) kB", text_of("/proc/meminfo")))
    if "MemAvailable" in memory:
        report.figures["memory available GiB"] = round(int(memory["MemAvailable"]) / float(MIB), 1)
    for path in glob.glob("/sys/devices/system/edac/mc/mc*/ue_count"):
        if number_of(path):
            report.problem("host", "%d uncorrected errors of memory (%s)" % (number_of(path), path.split("/")[-2]))
    throttled = sum(
        filter(None, map(number_of, glob.glob("/sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count")))
    )
    if throttled:
        report.figures["cpu thermal throttles since boot"] = float(throttled)
    report.figures["load"] = os.getloadavg()[0]


def look_at_ports(report, address):
    """Listen at the node's address, and connect to it there."""
    with socket.socket(family_of(address)) as listener:
        try:
            listener.bind((address, 0))
            listener.listen(1)
            socket.create_connection(listener.getsockname()[:2], 2).close()
        except OSError as error:
            report.problem("host", "nothing can be reached at its own address %s: %s" % (address, error))


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def interface_of(address):
    """Return the network interface with an IPv4 address; empty: not found."""
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            try:
                found = fcntl.ioctl(asking.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
        if socket.inet_ntoa(found[20:24]) == address:
            return name
    return ""


def nic_errors(nic):
    names = ("rx_errors", "tx_errors", "rx_crc_errors", "tx_carrier_errors")
    return {name: number_of("/sys/class/net/%s/statistics/%s" % (nic, name)) or 0 for name in names} if nic else {}


def look_at_nic(report, nic, before):
    if not nic:
        return
    state = text_of("/sys/class/net/%s/operstate" % nic)
    if state == "down":
        report.problem("nic", "%s is down" % nic)
    speed = number_of("/sys/class/net/%s/speed" % nic)
    if speed and speed > 0:
        report.figures["%s Mbit/s" % nic] = float(speed)
    for name, count in sorted(nic_errors(nic).items()):
        if count > before.get(name, 0):
            report.problem("nic", "%s: %d new %s" % (nic, count - before.get(name, 0), name), grave=False)
        if count:
            report.figures["%s %s since boot" % (nic, name)] = float(count)


# level 1


def load(request):
    report, busy, own = Report(), busy_seconds(), sum(os.times()[:2])
    torch = with_cuda()
    if torch is not None:
        report.attempt("gpu", "load of the GPUs", load_devices, torch)
    else:
        report.attempt("host", "load of the processor", load_processor)
    passed = busy_seconds() - busy - (sum(os.times()[:2]) - own)
    share = 100.0 * passed / (report.seconds() * os.cpu_count())
    # ``grass.checks.slowness`` knows this figure: beside other programs, times of processor and network say little
    report.figures["cores used by other programs %"] = round(min(100.0, max(0.0, share)))
    return report.answer()


def busy_seconds():
    """Return the seconds that all cores worked for any program since boot."""
    ticks = [int(word) for word in text_of("/proc/stat").split("\n")[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[3:5])) / float(os.sysconf("SC_CLK_TCK")) if len(ticks) == 8 else 0.0


def with_cuda():
    """Return torch if it can use a GPU here. To import it takes seconds, so that is not tried without a driver."""
    if not any(os.path.exists(each) for each in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")):
        return None
    try:
        import torch
    except Exception:
        return None
    try:
        return torch if torch.cuda.is_available() else None
    except Exception:
        return None


def load_devices(report, torch):
    library = nvml_or_none()
    report.devices = list(range(torch.cuda.device_count()))
    report.model = torch.cuda.get_device_name(0) + " torch"
    loads = [
        threading.Thread(target=load_or_report, args=(report, torch, device, library)) for device in report.devices
    ]
    for each in loads:  # all at once: eight devices one after the other take longer than a check may
        each.start()
    for each in loads:
        each.join()
    if len(report.devices) > 1:
        together(report, torch)


def nvml_or_none():
    try:
        return nvml()
    except Exception:  # level 0 says it
        return None


def load_or_report(report, torch, device, library):
    try:
        load_device(report, torch, device, library)
    except Exception as error:
        report.problem("gpu", "gpu %d fails under load: %s" % (device, str(error).split("\n")[0]), device)


def load_device(report, torch, device, library):
    where = torch.device("cuda", device)
    size = 8192 if torch.cuda.get_device_properties(device).total_memory > 8 << 30 else 2048
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    a = torch.randn(size, size, device=where, dtype=kind)
    host = torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=True)
    there = host.to(where)
    torch.matmul(a, a)
    torch.cuda.synchronize(where)
    matrix, copy = [], []
    for _ in range(ROUNDS):
        matrix.append(
            best_of(0.7, lambda: [torch.matmul(a, a) for _ in range(4)], lambda: torch.cuda.synchronize(where))
        )
        if library is not None:
            for _ in range(4):
                torch.matmul(a, a)
            clocks_of(report, library, torch, device)
        copy.append(
            best_of(
                0.3,
                lambda: (there.copy_(host, non_blocking=True), host.copy_(there, non_blocking=True)),
                lambda: torch.cuda.synchronize(where),
            )
        )
    report.times["matrix gpu%d" % device], report.times["copy gpu%d" % device] = matrix, copy
    if not bool(torch.isfinite(torch.matmul(a, a).float().sum())):
        report.problem("gpu", "gpu %d: its matrix product is not finite" % device, device)


def clocks_of(report, library, torch, device):
    """NVML's numbers are those of the machine, torch's those of the devices that it sees: the PCI bus is the same."""
    try:
        bus = torch.cuda.get_device_properties(device)
        handle = library.nvmlDeviceGetHandleByPciBusId(
            ("%08x:%02x:%02x.0" % (bus.pci_domain_id, bus.pci_bus_id, bus.pci_device_id)).encode()
        )
    except (AttributeError, library.NVMLError):
        handle = library.nvmlDeviceGetHandleByIndex(device)
    found = Report()
    look_at_clocks(found, library, handle, device, " under load")
    known = {each["text"] for each in report.problems}
    report.problems.extend(each for each in found.problems if each["text"] not in known)
    report.figures.update(found.figures)


def together(report, torch):
    """All-reduce between the node's own devices, by NCCL in one process."""
    from torch.cuda import nccl

    parts = [torch.ones(16 * MIB, device=torch.device("cuda", device)) for device in report.devices]
    nccl.all_reduce(parts)

    def wait():
        for device in report.devices:
            torch.cuda.synchronize(device)

    wait()
    report.times["all-reduce"] = [best_of(0.5, lambda: nccl.all_reduce(parts), wait) for _ in range(ROUNDS)]


def best_of(seconds, work, wait=lambda: None):
    """Return the seconds of the fastest of several runs: others on the machine make a run slower, never faster."""
    best, end = float("inf"), time.monotonic() + seconds
    while best == float("inf") or time.monotonic() < end:
        start = time.monotonic()
        work()
        wait()
        best = min(best, time.monotonic() - start)
    return best


def load_processor(report):
    names = re.findall(r"model name\s*: (.*)", text_of("/proc/cpuinfo"))
    report.model = names[0] if names else os.uname().machine
    try:
        import numpy

        a = numpy.random.rand(512, 512).astype("float32")
        product = lambda: a @ a  # noqa: E731
        report.model += " numpy"
    except ImportError:
        rows = [[float(i ^ j) for i in range(48)] for j in range(48)]
        product = lambda: [[sum(map(float.__mul__, x, y)) for y in rows] for x in rows]  # noqa: E731
        report.model += " python"
    source, target = bytes(32 * MIB), bytearray(32 * MIB)

    def copy():
        target[:] = source

    matrix, copies = [], []
    for _ in range(ROUNDS):
        matrix.append(best_of(0.5, product))
        copies.append(best_of(0.3, copy))
    report.times["matrix"], report.times["copy"] = matrix, copies


# level 2


class Side:
    """One side of a pair: exchanges bytes both ways at once, as an all-reduce between two does, and adds them up."""

    def __init__(self, connection, seconds):
        self.connection = connection
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = os.urandom(MIB) * (BULK // MIB)

    def receive(self, count):
        data, view, at = bytearray(count), None, 0
        view = memoryview(data)
        while at < count:
            got = self.connection.recv_into(view[at:], min(count - at, 4 * MIB))
            if not got:
                raise OSError("the other node closed the connection")
            at += got
        return data

    def exchange(self, first):
        start = time.monotonic()
        for _ in range(10):  # what waits for the network's latency
            if first:
                self.connection.sendall(b"x")
                self.receive(1)
            else:
                self.receive(1)
                self.connection.sendall(b"x")
        failed = []

        def send():
            try:
                self.connection.sendall(self.data)
            except OSError as error:
                failed.append(error)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        other = self.receive(BULK)
        sending.join()
        if failed:
            raise failed[0]
        total = int.from_bytes(other[:MIB], "little") + int.from_bytes(self.data[:MIB], "little")
        if first:
            self.connection.sendall(total.to_bytes(MIB + 8, "little"))
        elif int.from_bytes(self.receive(MIB + 8), "little") != total:
            raise OSError("the sums of both nodes differ: data was damaged on the way")
        return time.monotonic() - start


def serve(request):
    """Wait for the other node in a thread. Answers at once with the port."""
    listener = socket.socket(family_of(request["address"]))
    listener.bind((request["address"], 0))
    listener.listen(4)
    threading.Thread(target=serve_one, args=(listener, request), daemon=True).start()
    return {"port": listener.getsockname()[1]}


def serve_one(listener, request):
    until = time.monotonic() + request["seconds"]
    with listener:
        while time.monotonic() < until:
            listener.settimeout(max(0.1, until - time.monotonic()))
            try:
                connection, _ = listener.accept()
                with connection:
                    side = Side(connection, request["seconds"])
                    if bytes(side.receive(len(request["token"]))) == request["token"].encode():
                        for _ in range(ROUNDS):
                            side.exchange(first=False)
                        return
            except OSError:
                pass  # the other side says it, and the next connection may be the right one


def meet(request):
    """Connect to the node that serves, and measure."""
    try:
        where = request["peer"], request["port"]
        with socket.create_connection(where, request["seconds"]) as connection:
            side = Side(connection, request["seconds"])
            connection.sendall(request["token"].encode())
            return {"times": [side.exchange(first=True) for _ in range(ROUNDS)]}
    except OSError as error:
        timed = isinstance(error, socket.timeout)
        return {"error": "no answer within %g s" % request["seconds"] if timed else str(error.strerror or error)}


DUTIES = {"look": look, "load": load, "serve": serve, "meet": meet}


def main():
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # a device in quarantine is checked, too
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a node with more cores is not measured against one with fewer
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = DUTIES[request["do"]](request)
        except Exception as error:
            answer = {"failed": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
