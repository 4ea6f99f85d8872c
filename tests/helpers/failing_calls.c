/* A file system that fails: loaded before libc (LD_PRELOAD), it lets calls on files of one folder fail.

   fail_calls(folder, at, error, stays, reads): the call number `at`, counted from 0, returns -1 with errno
   `error`, and if `stays` all later ones do. Calls that write are counted; if `reads`, calls that read instead.
   count_calls() returns how many there were, and stops failures. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long calls, at = -1;
static int code, stays, reads;

void fail_calls(const char *where, long number, int error, int all_later, int of_reads) {
    strncpy(folder, where, sizeof folder - 1);
    calls = 0, code = error, stays = all_later, reads = of_reads, at = number;
}

long count_calls(void) {
    long seen = calls;
    folder[0] = 0, at = -1;
    return seen;
}

static int fails(void) {
    long number = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    if (at < 0 || (stays ? number < at : number != at)) return 0;
    errno = code;
    return 1;
}

static int path_fails(const char *path, int reading) {
    return folder[0] && reading == reads && path && !strncmp(path, folder, strlen(folder)) && fails();
}

static int fd_fails(int fd, int reading) {
    char link[64], path[PATH_MAX];
    if (!folder[0] || reading != reads) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return path_fails(path, reading);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

#define ON_FD(type, name, reading, parameters, values, ...) \
    type name parameters { REAL(type, #name, __VA_ARGS__) return fd_fails(fd, reading) ? (type)-1 : real values; }
#define ON_PATH(name, parameters, values, ...) \
    int name parameters { REAL(int, #name, __VA_ARGS__) return path_fails(path, 0) ? -1 : real values; }

ON_FD(ssize_t, write, 0, (int fd, const void *b, size_t n), (fd, b, n), int, const void *, size_t)
ON_FD(ssize_t, pwrite, 0, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), int, const void *, size_t, off_t)
ON_FD(ssize_t, pwrite64, 0, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), int, const void *, size_t, off_t)
ON_FD(ssize_t, writev, 0, (int fd, const struct iovec *v, int n), (fd, v, n), int, const struct iovec *, int)
ON_FD(int, fsync, 0, (int fd), (fd), int)
ON_FD(int, fdatasync, 0, (int fd), (fd), int)
ON_FD(int, ftruncate, 0, (int fd, off_t n), (fd, n), int, off_t)
ON_FD(int, ftruncate64, 0, (int fd, off_t n), (fd, n), int, off_t)
ON_FD(ssize_t, read, 1, (int fd, void *b, size_t n), (fd, b, n), int, void *, size_t)
ON_FD(ssize_t, pread, 1, (int fd, void *b, size_t n, off_t o), (fd, b, n, o), int, void *, size_t, off_t)
ON_FD(ssize_t, pread64, 1, (int fd, void *b, size_t n, off_t o), (fd, b, n, o), int, void *, size_t, off_t)
ON_PATH(rename, (const char *path, const char *to), (path, to), const char *, const char *)
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
ON_PATH(chmod, (const char *path, mode_t mode), (path, mode), const char *, mode_t)

int renameat2(int fd, const char *path, int to_fd, const char *to, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned)
    return path_fails(path, 0) ? -1 : real(fd, path, to_fd, to, flags);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...) \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return path_fails(path, !(flags & (O_WRONLY | O_RDWR))) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
