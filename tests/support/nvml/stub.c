/* A libnvidia-ml.so.1 for tests: its devices are what the file NVIDIA_STUB says, line by line ("count 4", "0.util 50"),
   and it is read anew at every call. Only what the node-agent asks is here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, SMALL = 7 };

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned int version; unsigned long long total, reserved, free, used; };
struct rates { unsigned int gpu, memory; };
struct process { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; };

static long long value(const char *name, long long otherwise) {
    FILE *file = fopen(getenv("NVIDIA_STUB"), "r");
    char key[64];
    long long number, found = otherwise;
    if (!file) return otherwise;
    while (fscanf(file, "%63s %lld", key, &number) == 2)
        if (!strcmp(key, name)) found = number;
    fclose(file);
    return found;
}

static long long of(void *device, const char *name, long long otherwise) {
    char key[64];
    snprintf(key, sizeof key, "%ld.%s", (long)device - 1, name);
    return value(key, otherwise);
}

#define DEVICE_OR_ERROR(device) do { int e = (int)of(device, "fails", 0); if (e) return e; } while (0)

static void note(const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s.calls", getenv("NVIDIA_STUB"));
    FILE *file = fopen(path, "a");
    if (!file) return;
    fputs(what, file);
    fclose(file);
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; note("o"); return (int)value("init", 0); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { note("c"); return OK; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "an error of the stub"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = (unsigned int)value("count", 0); return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if (index >= value("count", 0)) return INVALID;
    *device = (void *)(long)(index + 1);
    return OK;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    snprintf(version, length, "550.54.%lld", value("driver", 14));
    return OK;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    DEVICE_OR_ERROR(device);
    snprintf(name, length, "NVIDIA Stub 80GB");
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    DEVICE_OR_ERROR(device);
    snprintf(uuid, length, "GPU-stub-%ld", (long)device - 1);
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    DEVICE_OR_ERROR(device);
    memory->total = 80ULL << 30;
    memory->used = (unsigned long long)of(device, "used", 0);
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory) {
    DEVICE_OR_ERROR(device);
    long long reserved = of(device, "reserved", -1);
    if (reserved < 0) return NOT_SUPPORTED;
    memory->total = 80ULL << 30;
    memory->reserved = (unsigned long long)reserved;
    memory->used = (unsigned long long)of(device, "used", 0) - memory->reserved;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates) {
    DEVICE_OR_ERROR(device);
    rates->gpu = (unsigned int)of(device, "util", 0);
    return OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *degrees) {
    (void)sensor;
    DEVICE_OR_ERROR(device);
    *degrees = (unsigned int)of(device, "temp", 30);
    return OK;
}

int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    (void)counter;
    long long errors = of(device, "ecc", -1);
    if (errors < 0 || kind != 1) return NOT_SUPPORTED;
    *count = (unsigned long long)errors;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *processes) {
    DEVICE_OR_ERROR(device);
    unsigned int there = of(device, "pid", 0) ? 1 : 0, room = *count;
    *count = there;
    if (there > room) return SMALL;
    if (there) {
        processes->pid = (unsigned int)of(device, "pid", 0);
        processes->used = (unsigned long long)of(device, "pidmemory", 0);
    }
    return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    long long found = of(device, "power", -1);
    if (found < 0) return NOT_SUPPORTED;
    *milliwatts = (unsigned int)found;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    long long found = of(device, "energy", -1);
    if (found < 0) return NOT_SUPPORTED;
    *millijoules = (unsigned long long)found;
    return OK;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *megahertz) {
    *megahertz = (unsigned int)of(device, kind == 1 ? "clock" : "memoryclock", 1000);
    return OK;
}

struct field { unsigned int id, scope; long long at, latency; unsigned int type; int code; unsigned long long value; };

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    for (int i = 0; i < count; i++) {
        long long found = of(device, fields[i].id == 138 ? "nvlinksent" : "nvlinkreceived", -1);
        fields[i].code = found < 0 ? NOT_SUPPORTED : OK;
        fields[i].type = 3;
        fields[i].value = (unsigned long long)found;
    }
    return OK;
}
