/* A disk that fails, for whatever is started with this library in LD_PRELOAD. While the file that $CAIRN_DISK_FAULT names
 * is there, writes to files whose path has its second word in it fail as its first says: ENOSPC, EIO, or `hang`, which
 * keeps them until the file is gone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The fault that a path meets now: an error number, -1 to hang, or 0. */
static int fault(const char *path) {
    const char *control = getenv("CAIRN_DISK_FAULT");
    char said[256], kind[32], part[128];
    if (!control) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    long n = syscall(SYS_read, fd, said, sizeof said - 1);
    syscall(SYS_close, fd);
    if (n <= 0) return 0;
    said[n] = 0;
    if (sscanf(said, "%31s %127s", kind, part) != 2 || !strstr(path, part)) return 0;
    if (!strcmp(kind, "ENOSPC")) return ENOSPC;
    if (!strcmp(kind, "EIO")) return EIO;
    return -1;
}

/* Whether the call is to fail; one that hangs goes on when the fault is over. */
static int fails(const char *path) {
    int kept = errno, met;
    while ((met = fault(path)) == -1) {
        struct timespec pause = {0, 5 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    errno = met ? met : kept;
    return met != 0;
}

static int fails_fd(int fd) {
    int kept = errno;
    char link[64], path[PATH_MAX];
    if (!getenv("CAIRN_DISK_FAULT")) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (n < 0) return 0;
    path[n] = 0;
    return fails(path);
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define BY_FD(type, name, params, args)                      \
    type name params {                                       \
        static typeof(&name) next;                           \
        if (!next) next = NEXT(name);                        \
        return fails_fd(fd) ? (type)-1 : next args;          \
    }

BY_FD(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
BY_FD(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n))
BY_FD(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))
BY_FD(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off64_t at), (fd, buf, n, at))
BY_FD(int, fsync, (int fd), (fd))
BY_FD(int, fdatasync, (int fd), (fd))
BY_FD(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags))
BY_FD(int, ftruncate, (int fd, off_t len), (fd, len))
BY_FD(int, ftruncate64, (int fd, off64_t len), (fd, len))

static int writes(int flags) { return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0; }

int open64(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (!next) next = dlsym(RTLD_NEXT, "open64");
    return writes(flags) && fails(path) ? -1 : next(path, flags, mode);
}

int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (!next) next = dlsym(RTLD_NEXT, "rename");
    return fails(to) ? -1 : next(from, to);
}
