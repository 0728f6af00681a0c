/* A disk and a clock that fail, for whatever is started with this library in LD_PRELOAD. While the file that
 * $CAIRN_DISK_FAULT names is there, its words say what happens to calls that write:
 *
 *     FAULT PART FROM OPS [NEEDLE]
 *
 * to those on files whose path has PART in it, of the kinds in OPS (w: write, s: sync, o: open to write, r: rename,
 * t: truncate, u: unlink, p: a new thread, whose path is `thread`), whose bytes have NEEDLE in them, where one is given, from the FROM-th such call on. FAULT is an
 * error (ENOSPC, EIO, EMFILE), `hang`, which keeps a call until the file is gone, `slow`, which keeps each for 300 ms, or
 * the end of the process, as kill -9 makes it: `kill-before` the call, `kill-within` (half of a write is done) and
 * `kill-after` it. While $CAIRN_CLOCK_OFFSET is there, its seconds are added to the time of day. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NONE = 0, HANG = -1, SLOW = -2, BEFORE = -3, WITHIN = -4, AFTER = -5 };

/* The first bytes of a file; nothing where it is not there. */
static long said_in(const char *variable, char *said, size_t size) {
    const char *control = getenv(variable);
    if (!control) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    long n = syscall(SYS_read, fd, said, size - 1);
    syscall(SYS_close, fd);
    said[n > 0 ? n : 0] = 0;
    return n > 0 ? n : 0;
}

/* The fault that a call meets now: an error number, one of the above, or none. */
static int fault(const char *path, char op, const void *bytes, size_t len, int counts) {
    static atomic_ulong met;
    static const struct {
        const char *name;
        int fault;
    } names[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},           {"EMFILE", EMFILE},      {"hang", HANG},
                 {"slow", SLOW},     {"kill-before", BEFORE}, {"kill-within", WITHIN}, {"kill-after", AFTER}};
    char said[512], kind[32], part[128], ops[16], needle[128] = "";
    unsigned long from;
    if (said_in("CAIRN_DISK_FAULT", said, sizeof said) == 0) return NONE;
    if (sscanf(said, "%31s %127s %lu %15s %127s", kind, part, &from, ops, needle) < 4) return NONE;
    if (!strstr(path, part) || !strchr(ops, op)) return NONE;
    if (*needle && (!bytes || !memmem(bytes, len, needle, strlen(needle)))) return NONE;
    if (counts && atomic_fetch_add(&met, 1) + 1 < from) return NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(kind, names[i].name)) return names[i].fault;
    return NONE;
}

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); }

/* What a call meets, when it has not hung and is not slow any more; errno is set where it fails. */
static int meets(const char *path, char op, const void *bytes, size_t len) {
    int kept = errno, met = fault(path, op, bytes, len, 1);
    while (met == HANG) {
        pause_ms(5);
        met = fault(path, op, bytes, len, 0);
    }
    if (met == SLOW) pause_ms(300);
    if (met == BEFORE) die();
    errno = met > 0 ? met : kept;
    return met;
}

static int meets_fd(int fd, char op, const void *bytes, size_t len) {
    int kept = errno;
    char link[64], path[PATH_MAX];
    if (!getenv("CAIRN_DISK_FAULT")) return NONE;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (n < 0) return NONE;
    path[n] = 0;
    return meets(path, op, bytes, len);
}

#define NEXT(name)                  \
    static typeof(&name) next;      \
    if (!next) next = (typeof(&name))dlsym(RTLD_NEXT, #name)

/* A call on a file; `half` is what is done of it before the process ends within it. */
#define CALL(type, name, params, op, met_by, half, args) \
    type name params {                                   \
        NEXT(name);                                      \
        int met = met_by;                                \
        if (met > 0) return (type)-1;                    \
        if (met == WITHIN) {                             \
            half;                                        \
            die();                                       \
        }                                                \
        type done = next args;                           \
        if (met == AFTER) die();                         \
        return done;                                     \
    }
#define BY_FD(type, name, params, op, bytes, len, half, args) \
    CALL(type, name, params, op, meets_fd(fd, op, bytes, len), half, args)

BY_FD(ssize_t, write, (int fd, const void *buf, size_t n), 'w', buf, n, (void)!next(fd, buf, n / 2), (fd, buf, n))
BY_FD(ssize_t, writev, (int fd, const struct iovec *iov, int n), 'w', NULL, 0, (void)0, (fd, iov, n))
BY_FD(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), 'w', buf, n, (void)!next(fd, buf, n / 2, at),
      (fd, buf, n, at))
BY_FD(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off64_t at), 'w', buf, n,
      (void)!next(fd, buf, n / 2, at), (fd, buf, n, at))
BY_FD(int, fsync, (int fd), 's', NULL, 0, (void)0, (fd))
BY_FD(int, fdatasync, (int fd), 's', NULL, 0, (void)0, (fd))
BY_FD(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), 's', NULL, 0, (void)0, (fd, at, n, flags))
BY_FD(int, ftruncate, (int fd, off_t len), 't', NULL, 0, (void)0, (fd, len))
BY_FD(int, ftruncate64, (int fd, off64_t len), 't', NULL, 0, (void)0, (fd, len))

CALL(int, rename, (const char *from, const char *to), 'r', meets(to, 'r', NULL, 0), (void)0, (from, to))
CALL(int, unlink, (const char *path), 'u', meets(path, 'u', NULL, 0), (void)0, (path))

static int writes(int flags) { return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0; }

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    NEXT(open64);
    int met = writes(flags) ? meets(path, 'o', NULL, 0) : NONE;
    if (met > 0) return -1;
    int fd = next(path, flags, mode);
    if (met == WITHIN || met == AFTER) die();
    return fd;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*work)(void *), void *arg) {
    NEXT(pthread_create);
    return meets("thread", 'p', NULL, 0) > 0 ? EAGAIN : next(thread, attr, work, arg);
}

/* How far the clock is off, in seconds; looked up every 10 ms. */
static long offset(void) {
    static atomic_long known, looked;
    struct timespec now;
    char said[32];
    if (!getenv("CAIRN_CLOCK_OFFSET")) return 0;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    long ticks = now.tv_sec * 100 + now.tv_nsec / 10000000;
    if (atomic_exchange(&looked, ticks) != ticks) {
        int kept = errno;
        known = said_in("CAIRN_CLOCK_OFFSET", said, sizeof said) ? atol(said) : 0;
        errno = kept;
    }
    return known;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    NEXT(clock_gettime);
    int done = next(clock, out);
    if (clock == CLOCK_REALTIME && done == 0) out->tv_sec += offset();
    return done;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    NEXT(gettimeofday);
    int done = next(out, zone);
    if (done == 0) out->tv_sec += offset();
    return done;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
