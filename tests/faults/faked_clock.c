/* Loaded before the C library: CLOCK_REALTIME of this process is off by what a shared file says.
 *
 * The file holds one 64-bit number of nanoseconds. A thread looks at it every 5 ms; when it has
 * changed, what the kernel does at clock_settime(2) is done to the timers of CLOCK_REALTIME: one
 * that asked for TFD_TIMER_CANCEL_ON_SET becomes readable and read(2) gives ECANCELED, others
 * are armed anew. Other clocks are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MANY 1024
#define SECOND 1000000000LL

static struct timer { int used, flags, cancelled; int64_t at, seen; } timers[MANY];
static int64_t none;
static volatile int64_t *offset = &none;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_settime)(int, int, const struct itimerspec *, struct itimerspec *);
static int (*real_create)(int, int);
static ssize_t (*real_read)(int, void *, size_t);
static int (*real_close)(int);

static struct timespec spec(int64_t ns) {
    struct timespec value = {ns / SECOND, ns % SECOND};
    return value;
}

static int arm(int fd, int64_t ns, int flags, struct itimerspec *former) {
    struct itimerspec value = {{0, 0}, spec(ns > 0 ? ns : 1)};
    return real_settime(fd, flags & TFD_TIMER_ABSTIME, &value, former);
}

static void look(void) {
    pthread_mutex_lock(&lock);
    for (int fd = 0; fd < MANY; fd++) {
        struct timer *each = &timers[fd];
        if (!each->used || !each->at || each->seen == *offset) continue;
        if (each->flags & TFD_TIMER_CANCEL_ON_SET) {
            if (!each->cancelled) arm(fd, 1, TFD_TIMER_ABSTIME, NULL); /* long past: readable at once */
            each->cancelled = 1;
        } else {
            each->seen = *offset;
            arm(fd, each->at - *offset, TFD_TIMER_ABSTIME, NULL);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void *watch(void *nothing) {
    struct timespec moment = spec(5000000);
    for (;;) {
        nanosleep(&moment, NULL);
        look();
    }
    return nothing;
}

/* Others may call before our constructor runs. */
static void find(void) {
    if (real_close) return;
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_settime = dlsym(RTLD_NEXT, "timerfd_settime");
    real_create = dlsym(RTLD_NEXT, "timerfd_create");
    real_read = dlsym(RTLD_NEXT, "read");
    real_close = dlsym(RTLD_NEXT, "close");
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    const char *path = getenv("FAKED_CLOCK");
    find();
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    real_close(fd);
    if (found == MAP_FAILED) return;
    offset = found;
    pthread_create(&thread, NULL, watch, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    find();
    int result = real_gettime(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *now = spec(now->tv_sec * SECOND + now->tv_nsec + *offset);
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec value;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &value)) return -1;
    now->tv_sec = value.tv_sec;
    now->tv_usec = value.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec value;
    clock_gettime(CLOCK_REALTIME, &value);
    if (where) *where = value.tv_sec;
    return value.tv_sec;
}

int timerfd_create(int clock, int flags) {
    find();
    int fd = real_create(clock, flags);
    if (fd >= 0 && fd < MANY && clock == CLOCK_REALTIME) {
        struct timer fresh = {1, 0, 0, 0, *offset};
        pthread_mutex_lock(&lock);
        timers[fd] = fresh;
        pthread_mutex_unlock(&lock);
    }
    return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *former) {
    find();
    if (fd < 0 || fd >= MANY || !timers[fd].used || !(flags & TFD_TIMER_ABSTIME))
        return real_settime(fd, flags, value, former);
    pthread_mutex_lock(&lock);
    struct timer *each = &timers[fd];
    int was_set = (each->flags & TFD_TIMER_CANCEL_ON_SET) && each->seen != *offset;
    each->flags = flags;
    each->cancelled = 0;
    each->seen = *offset;
    each->at = value->it_value.tv_sec * SECOND + value->it_value.tv_nsec;
    int result = each->at ? arm(fd, each->at - each->seen, flags, former)
                          : real_settime(fd, 0, value, former);
    pthread_mutex_unlock(&lock);
    if (result == 0 && was_set) {
        errno = ECANCELED;
        return -1;
    }
    return result;
}

ssize_t read(int fd, void *into, size_t count) {
    find();
    ssize_t result = real_read(fd, into, count);
    if (result < 0 || fd < 0 || fd >= MANY || !timers[fd].used) return result;
    pthread_mutex_lock(&lock);
    int cancelled = timers[fd].cancelled;
    timers[fd].cancelled = 0;
    timers[fd].seen = *offset;
    pthread_mutex_unlock(&lock);
    if (!cancelled) return result;
    errno = ECANCELED;
    return -1;
}

int close(int fd) {
    find();
    if (fd >= 0 && fd < MANY) timers[fd].used = 0;
    return real_close(fd);
}
