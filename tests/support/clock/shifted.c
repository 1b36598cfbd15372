/* Preloaded into a process, it sees the wall clock SHIFT seconds off. With FAST, in percent, its monotonic clocks run faster
   from its start on (or slower, below 0), and whoever waits for a moment of theirs waits as long as they say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift, fast;
static long long began[3];
static const clockid_t STEADY[3] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};

static long long whole(const struct timespec *time) { return time->tv_sec * 1000000000LL + time->tv_nsec; }

static struct timespec parts(long long time) { return (struct timespec){time / 1000000000LL, time % 1000000000LL}; }

__attribute__((constructor)) static void begin(void)
{
    const char *seconds = getenv("SHIFT"), *percent = getenv("FAST");
    shift = seconds ? atol(seconds) : 0;
    fast = percent ? atol(percent) : 0;
    for (int each = 0; each < 3; each++) {
        struct timespec now;
        syscall(SYS_clock_gettime, STEADY[each], &now);
        began[each] = whole(&now);
    }
}

static int steady(clockid_t which)
{
    for (int each = 0; each < 3; each++)
        if (fast && STEADY[each] == which)
            return each;
    return -1;
}

/* The kernel's time for what the process sees. */
static struct timespec kernel(clockid_t which, const struct timespec *seen)
{
    int each = steady(which);
    if (each < 0)
        return *seen;
    return parts(began[each] + (whole(seen) - began[each]) * 100 / (100 + fast));
}

int clock_gettime(clockid_t which, struct timespec *time)
{
    long failed = syscall(SYS_clock_gettime, which, time);
    int each = steady(which);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        time->tv_sec += shift;
    if (!failed && each >= 0)
        *time = parts(began[each] + (whole(time) - began[each]) * (100 + fast) / 100);
    return (int)failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    long failed = syscall(SYS_gettimeofday, time, zone);
    if (!failed)
        time->tv_sec += shift;
    return (int)failed;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

int clock_nanosleep(clockid_t which, int flags, const struct timespec *until, struct timespec *left)
{
    static int (*next)(clockid_t, int, const struct timespec *, struct timespec *);
    struct timespec at = flags & TIMER_ABSTIME ? kernel(which, until) : *until;
    if (!next)
        next = dlsym(RTLD_NEXT, "clock_nanosleep");
    return next(which, flags, &at, left);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t which, const struct timespec *restrict until)
{
    static int (*next)(sem_t *, clockid_t, const struct timespec *);
    struct timespec at = kernel(which, until);
    if (!next)
        next = dlsym(RTLD_NEXT, "sem_clockwait");
    return next(semaphore, which, &at);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t which,
                           const struct timespec *restrict until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    struct timespec at = kernel(which, until);
    if (!next)
        next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    return next(condition, mutex, which, &at);
}

/* Of a condition with the monotonic clock, as those of CPython. A moment of the wall clock is far beyond its time. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec now, at;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    int wall = until->tv_sec > now.tv_sec + 100000000;
    at = wall ? *until : kernel(CLOCK_MONOTONIC, until);
    if (wall)
        at.tv_sec -= shift;
    if (!next)
        next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(condition, mutex, &at);
}
