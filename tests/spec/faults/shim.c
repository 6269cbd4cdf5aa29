// Stands between a gateway and the C library (LD_PRELOAD), and lets a test set the clock and break the disk while the
// gateway runs. What it does is read from a file that both have mapped: see `Control` in faults.rs.
//
// It allocates nothing and looks nothing up, because the allocator itself asks for the time: libfaketime does both in
// its first call, which comes while the allocator is being set up, and so waits for ever.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t shift_seconds;    // of the clock on the wall
    volatile int64_t syncs_fail;       // fsync and fdatasync report EIO
    volatile int64_t read_only;        // what would write to a database or its log reports EROFS
    volatile uint64_t failed;          // how often one of these did
    volatile uint64_t database_syncs;  // how often a database itself, not its log, was synced
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TL_FAULTS");
    if (!path)
        return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static int64_t shift(void) { return control ? control->shift_seconds : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int done = (int)syscall(SYS_gettimeofday, now, zone);
    if (done == 0)
        now->tv_sec += shift();
    return done;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

// The kernel does not know of the shift. A moment long before this program was written is not one of the wall's.
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (until->tv_sec < 1000000000)
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    struct timespec shifted = *until;
    shifted.tv_sec -= shift();
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &shifted);
}

// Ends in this, or in this and what SQLite puts behind it.
static int names(int file, const char *end) {
    char link[64], path[4096];
    char *digit = link + sizeof link - 1;
    *digit = 0;
    unsigned rest = (unsigned)file;
    do
        *--digit = (char)('0' + rest % 10);
    while (rest /= 10);
    const char prefix[] = "/proc/self/fd/";
    digit -= sizeof prefix - 1;
    memcpy(digit, prefix, sizeof prefix - 1);
    long length = syscall(SYS_readlinkat, AT_FDCWD, digit, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    size_t size = strlen(end);
    return (size_t)length >= size && strcmp(path + length - size, end) == 0;
}

static int synced(int file, long call) {
    if (control && control->syncs_fail) {
        control->failed++;
        errno = EIO;
        return -1;
    }
    if (control && names(file, ".db"))
        control->database_syncs++;
    return (int)syscall(call, file);
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

static int refused(int file) {
    if (!control || !control->read_only || !(names(file, ".db") || names(file, ".db-wal")))
        return 0;
    control->failed++;
    errno = EROFS;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t count) {
    return refused(file) ? -1 : syscall(SYS_write, file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    return refused(file) ? -1 : syscall(SYS_pwrite64, file, bytes, count, at);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }

int ftruncate64(int file, off64_t size) { return refused(file) ? -1 : (int)syscall(SYS_ftruncate, file, size); }
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }
