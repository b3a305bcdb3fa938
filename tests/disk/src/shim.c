/* Logs every change that a process makes under SHIM_ROOT to SHIM_LOG, in order across threads, so that the
 * disk can be rebuilt as of any moment. Loaded with LD_PRELOAD.
 *
 * A write is made and logged under one lock. A sync is logged at its end, with the number of records at its
 * beginning: it covers those and no later ones. sync_file_range is not logged: it promises nothing about a
 * power cut. Writes to SHIM_ACKS are logged too, so that acknowledgements are in the same order.
 *
 * SHIM_FAULT "what at errno stays": the at-th change (what 0) or sync (1) fails with errno; with stays 1
 * all later ones, too; with stays n every n-th of them from the at-th on. errno 0 reports success and does
 * nothing. A full disk takes half of a write first, up to the end of a sector. A failed sync is logged: its
 * data is lost, in spite of any later sync. Every other descriptor that the file has then reports the error
 * once, at the end of its next sync, as Linux does (errseq_t).
 *
 * SHIM_FAIL_THREAD "at errno name": the first sync by a thread of that name after the at-th change fails.
 * If there is such a thread by then, the at-th change returns only after that sync, or after a second.
 *
 * SHIM_CONCEALS: no other descriptor reports a failed sync.
 *
 * SHIM_KILL "what at after": the process is killed at the at-th change or sync, before it is made (after 0)
 * or when it is made and before it returns (after 1).
 *
 * SHIM_DELAY "n": the last n writes to the journal and its mark stay in memory, and the program hears
 * that they are made. They are made in order, each when the n-th after it comes, all when the process
 * exits. A killed process loses them: from outside, a reply before its commit.
 *
 * SHIM_LIES "prefix": fdatasync of a file whose name begins so does nothing and reports success.
 *
 * SHIM_SLOW path: while there is such a file, each sync takes a second and more.
 *
 * SHIM_COUNTS: a file that holds the number of changes, of syncs and of faults, as u64 each; faults and
 * kills need it.
 *
 * Record: op u8, inode u64, a u64, b u64, length of first u32, of second u32, first, second.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, LINK, ACK, EXCHANGE, SYNC_FAILED, CACHE_DROPPED };
enum { CREATED = 1, TRUNCATED = 2 };
enum { FDS = 65536, ACKS = 1, MAX_DELAYED = 64, SECTOR = 512 };
enum { CHANGE = 0, SYNCING, FAULTS };
enum { DO = 0, DO_HALF, PRETEND, FAIL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *acks;
static int log_fd = -1;
static int counts_fd = -1, conceals;
static const char *lies;
static uint64_t record_count, counts[3], fault_at;
static int fault_what = -1, fault_errno;
static uint64_t fault_stays;
static int kill_what = -1, kill_after;
static uint64_t kill_at;
static uint64_t thread_fault_at;
static int thread_fault_errno;
static char fault_thread[16];
static enum { PENDING, AWAITED, DONE } thread_fault;
static int thread_runs; /* there is a thread of that name */
static pthread_cond_t thread_fault_done = PTHREAD_COND_INITIALIZER;
static __thread int dying, awaits;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inodes[FDS]; /* 0: not watched; ACKS: acknowledgements */
static int unreported[FDS]; /* the error of a failed sync by way of another descriptor */

/* Delayed writes, the oldest first. */
static struct { int fd; off_t at; size_t length; void *bytes; } delayed[MAX_DELAYED];
static int delays, delayed_count;
static const char *slow;
static unsigned char is_delayed[FDS];
static unsigned char is_lied_about[FDS];

__attribute__((constructor)) static void begin(void) {
    root = getenv("SHIM_ROOT");
    acks = getenv("SHIM_ACKS");
    const char *path = getenv("SHIM_LOG");
    if (root && path)
        log_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    lies = getenv("SHIM_LIES");
    conceals = getenv("SHIM_CONCEALS") != NULL;
    path = getenv("SHIM_COUNTS");
    if (path) counts_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const char *fault = getenv("SHIM_FAULT");
    unsigned long at = 0, stays = 0;
    if (fault && sscanf(fault, "%d %lu %d %lu", &fault_what, &at, &fault_errno, &stays) != 4) abort();
    fault_at = at;
    fault_stays = stays;
    const char *kill = getenv("SHIM_KILL");
    at = 0;
    if (kill && sscanf(kill, "%d %lu %d", &kill_what, &at, &kill_after) != 3) abort();
    kill_at = at;
    const char *of = getenv("SHIM_FAIL_THREAD");
    if (of && sscanf(of, "%lu %d %15[^\n]", &at, &thread_fault_errno, fault_thread) != 3) abort();
    if (of) thread_fault_at = at;
    slow = getenv("SHIM_SLOW");
    const char *delay = getenv("SHIM_DELAY");
    if (delay && (sscanf(delay, "%d", &delays) != 1 || delays < 1 || delays > MAX_DELAYED)) abort();
}

/* Kills the whole process. */
static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* The call is made. */
static void after_call(void) {
    if (dying) die();
}

static int is_fault_thread(void) {
    char name[16];
    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, fault_thread) == 0;
}

int pthread_setname_np(pthread_t thread, const char *name) {
    static int (*next)(pthread_t, const char *);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_setname_np");
    if (thread_fault_at && strcmp(name, fault_thread) == 0) {
        pthread_mutex_lock(&fault_lock);
        thread_runs = 1;
        pthread_mutex_unlock(&fault_lock);
    }
    return next(thread, name);
}

/* Waits for the failing sync of the thread, if the last change is the one before it. */
static void await_thread_fault(void) {
    if (!awaits) return;
    awaits = 0;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&fault_lock);
    thread_fault = AWAITED;
    while (thread_fault == AWAITED && thread_runs && !is_fault_thread())
        if (pthread_cond_timedwait(&thread_fault_done, &fault_lock, &until) == ETIMEDOUT) break;
    pthread_mutex_unlock(&fault_lock);
}

/* True if this sync is the failing one of the thread. */
static int is_thread_fault(void) {
    if (!thread_fault_at || !is_fault_thread()) return 0;
    pthread_mutex_lock(&fault_lock);
    int fails = thread_fault == AWAITED;
    pthread_mutex_unlock(&fault_lock);
    return fails;
}

/* The failing sync is logged: counts it, and lets the change return. */
static void end_thread_fault(void) {
    pthread_mutex_lock(&fault_lock);
    counts[FAULTS]++;
    if (syscall(SYS_pwrite64, counts_fd, counts, sizeof counts, 0) != sizeof counts) abort();
    thread_fault = DONE;
    pthread_cond_broadcast(&thread_fault_done);
    pthread_mutex_unlock(&fault_lock);
}

/* Decides about a change or a sync. */
static int decide(int what, size_t length) {
    if (counts_fd < 0) return DO;
    pthread_mutex_lock(&fault_lock);
    uint64_t n = ++counts[what];
    /* The write that fits half is followed by one that does not fit at all. */
    uint64_t last = fault_errno == ENOSPC ? fault_at + 1 : fault_at;
    int met = what == fault_what && n >= fault_at &&
              (n <= last || (fault_stays && (n - fault_at) % fault_stays == 0));
    int dies = what == kill_what && n == kill_at;
    if (met || dies) counts[FAULTS]++;
    awaits = what == CHANGE && n == thread_fault_at;
    if (syscall(SYS_pwrite64, counts_fd, counts, sizeof counts, 0) != sizeof counts) abort();
    pthread_mutex_unlock(&fault_lock);
    if (dies && !kill_after) die();
    dying = dies;
    if (!met) return DO;
    if (fault_errno == 0) return PRETEND;
    if (fault_errno == ENOSPC && n == fault_at && length > 1) return DO_HALF;
    errno = fault_errno;
    return FAIL;
}

/* The part of a write that a full disk takes: half of it, up to the end of a sector. */
static size_t half(size_t length, off_t at) {
    off_t end = at + length / 2;
    end -= end % SECTOR;
    return end > at ? end - at : 0;
}

static void write_log(const void *bytes, size_t length) {
    while (length > 0) {
        ssize_t done = syscall(SYS_write, log_fd, bytes, length);
        if (done <= 0) abort();
        bytes = (const char *)bytes + done;
        length -= done;
    }
}

static void record(uint8_t op, uint64_t inode, uint64_t a, uint64_t b, const void *first, uint32_t n1,
                 const void *second, uint32_t n2) {
    if (log_fd < 0) return;
    unsigned char head[33];
    head[0] = op;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &a, 8);
    memcpy(head + 17, &b, 8);
    memcpy(head + 25, &n1, 4);
    memcpy(head + 29, &n2, 4);
    struct iovec parts[3] = {{head, sizeof head}, {(void *)first, n1}, {(void *)second, n2}};
    size_t length = sizeof head + n1 + n2;
    ssize_t done = syscall(SYS_writev, log_fd, parts, 3);
    if (done < 0) abort();
    if ((size_t)done < length) { /* rare: the rest piece by piece */
        size_t skip = done;
        for (int i = 0; i < 3; i++) {
            size_t after_call = skip < parts[i].iov_len ? skip : parts[i].iov_len;
            write_log((const char *)parts[i].iov_base + after_call, parts[i].iov_len - after_call);
            skip -= after_call;
        }
    }
    record_count++;
}

static int watched_path(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return root && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static uint64_t watched(int fd) { return root && fd >= 0 && fd < FDS ? inodes[fd] : 0; }

/* Makes delayed writes, under the lock, until at most `left` remain. */
static void write_delayed(int left) {
    while (delayed_count > left) {
        size_t length = delayed[0].length;
        if (syscall(SYS_pwrite64, delayed[0].fd, delayed[0].bytes, length, delayed[0].at) != (ssize_t)length) abort();
        free(delayed[0].bytes);
        memmove(delayed, delayed + 1, --delayed_count * sizeof delayed[0]);
    }
}

static ssize_t delay(int fd, const void *bytes, size_t length, off_t at) {
    void *copy = malloc(length);
    if (!copy) abort();
    memcpy(copy, bytes, length);
    pthread_mutex_lock(&lock);
    write_delayed(delays - 1);
    delayed[delayed_count].fd = fd;
    delayed[delayed_count].at = at;
    delayed[delayed_count].length = length;
    delayed[delayed_count++].bytes = copy;
    after_call();
    pthread_mutex_unlock(&lock);
    return length;
}

static void write_all_delayed(void) {
    pthread_mutex_lock(&lock);
    write_delayed(0);
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void) { write_all_delayed(); }

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_journal(const char *path) {
    const char *name = name_of(path);
    return strncmp(name, "journal.", 8) == 0 || strcmp(name, "callboard-mark") == 0;
}

/* The absolute path of a name in a watched directory, in `buffer`; any other path as it is. */
static const char *absolute(int at, const char *path, char buffer[PATH_MAX]) {
    if (path[0] == '/' || !watched(at)) return path;
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX);
    if (length < 0 || length + strlen(path) + 2 > PATH_MAX) abort();
    buffer[length] = '/';
    strcpy(buffer + length + 1, path);
    return buffer;
}

static int do_open(int at, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = absolute(at, name, buffer);
    int is_acks = log_fd >= 0 && acks && strcmp(path, acks) == 0;
    if (!is_acks && !watched_path(path)) return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat info;
    int there = syscall(SYS_newfstatat, AT_FDCWD, path, &info, 0) == 0;
    if (!is_acks && (flags & (O_CREAT | O_TRUNC)) && (!there || (flags & O_TRUNC)) && decide(CHANGE, 0) == FAIL) {
        int error = errno;
        pthread_mutex_unlock(&lock);
        errno = error;
        return -1;
    }
    int fd = syscall(SYS_openat, at, path, flags, mode);
    int error = errno;
    after_call();
    if (fd >= FDS) abort();
    if (fd >= 0) is_delayed[fd] = delays && is_journal(path);
    if (fd >= 0) is_lied_about[fd] = lies && strncmp(name_of(path), lies, strlen(lies)) == 0;
    if (fd >= 0 && is_acks) inodes[fd] = ACKS;
    if (fd >= 0 && !is_acks) {
        if (fstat(fd, &info) != 0) abort();
        inodes[fd] = info.st_ino;
        unreported[fd] = 0;
        uint64_t what = (there ? 0 : CREATED) | (there && (flags & O_TRUNC) ? TRUNCATED : 0);
        record(OPEN, info.st_ino, what, S_ISDIR(info.st_mode), path, strlen(path), "", 0);
    }
    pthread_mutex_unlock(&lock);
    await_thread_fault();
    errno = error;
    return fd;
}

#define MODE(flags)                                        \
    mode_t mode = 0;                                       \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {               \
        va_list rest;                                      \
        va_start(rest, flags);                             \
        mode = va_arg(rest, mode_t);                       \
        va_end(rest);                                      \
    }

int open(const char *path, int flags, ...) { MODE(flags) return do_open(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return do_open(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return do_open(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return do_open(at, path, flags, mode); }

static void closes(int fd) {
    if (watched(fd)) {
        if (is_delayed[fd]) write_all_delayed();
        is_delayed[fd] = 0;
        inodes[fd] = 0;
    }
}

int close(int fd) {
    closes(fd);
    return syscall(SYS_close, fd);
}

/* Another descriptor of the same file is watched, too. */
int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int result = syscall(SYS_fcntl, fd, command, argument);
    int copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (copies && result >= FDS) abort();
    if (copies && result >= 0 && watched(fd)) {
        pthread_mutex_lock(&lock);
        inodes[result] = inodes[fd];
        is_delayed[result] = is_delayed[fd];
        is_lied_about[result] = is_lied_about[fd];
        unreported[result] = unreported[fd];
        pthread_mutex_unlock(&lock);
    }
    return result;
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return fcntl64(fd, command, argument);
}

int closedir(DIR *directory) {
    static int (*next)(DIR *);
    if (!next) next = dlsym(RTLD_NEXT, "closedir");
    closes(dirfd(directory));
    return next(directory);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(SYS_pwrite64, fd, bytes, length, at);
    int how = decide(CHANGE, length);
    if (how == FAIL) return -1;
    if (how == PRETEND) return length;
    if (how == DO_HALF && !(length = half(length, at))) {
        errno = fault_errno;
        return -1;
    }
    if (is_delayed[fd]) return delay(fd, bytes, length, at);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, length, at);
    int error = errno;
    after_call();
    if (done > 0) record(WRITE, inode, at, 0, bytes, done, "", 0);
    pthread_mutex_unlock(&lock);
    await_thread_fault();
    errno = error;
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }

ssize_t write(int fd, const void *bytes, size_t length) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(SYS_write, fd, bytes, length);
    int how = inode == ACKS ? DO : decide(CHANGE, length);
    if (how == FAIL) return -1;
    if (how == PRETEND) return length;
    if (how == DO_HALF && !(length = half(length, syscall(SYS_lseek, fd, 0, SEEK_CUR)))) {
        errno = fault_errno;
        return -1;
    }
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, fd, bytes, length);
    int error = errno;
    after_call();
    if (done > 0 && inode == ACKS) record(ACK, 0, 0, 0, bytes, done, "", 0);
    /* The offset of the write: right before the file's offset now, with O_APPEND too. */
    if (done > 0 && inode != ACKS) record(WRITE, inode, syscall(SYS_lseek, fd, 0, SEEK_CUR) - done, 0, bytes, done, "", 0);
    pthread_mutex_unlock(&lock);
    await_thread_fault();
    errno = error;
    return done;
}

/* One piece is a valid answer to a call with several. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!watched(fd)) return syscall(SYS_writev, fd, parts, count);
    return count > 0 ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) {
    if (!watched(fd)) return syscall(SYS_pwritev, fd, parts, count, at, 0);
    return count > 0 ? pwrite64(fd, parts[0].iov_base, parts[0].iov_len, at) : 0;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev64(fd, parts, count, at); }

/* A program that has the kernel copy falls back to writing. */
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags) {
    if (!watched(to)) return syscall(SYS_copy_file_range, from, at, to, to_at, length, flags);
    errno = ENOSYS;
    return -1;
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t length) {
    if (!watched(to)) return syscall(SYS_sendfile, to, from, at, length);
    errno = ENOSYS;
    return -1;
}

ssize_t sendfile(int to, int from, off_t *at, size_t length) { return sendfile64(to, from, at, length); }

int ftruncate64(int fd, off_t length) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(SYS_ftruncate, fd, length);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_ftruncate, fd, length);
    int error = errno;
    after_call();
    if (result == 0) record(TRUNCATE, inode, length, 0, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    await_thread_fault();
    errno = error;
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int do_sync(int fd, long call, uint64_t data_only) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(call, fd);
    int how = decide(SYNCING, 0), error = fault_errno, is_of_thread = is_thread_fault();
    if (is_of_thread) how = FAIL, error = thread_fault_errno;
    pthread_mutex_lock(&lock);
    uint64_t covered = record_count;
    if (how == FAIL) {
        unreported[fd] = 0;
        record(SYNC_FAILED, inode, covered, 0, "", 0, "", 0);
        for (int other = 0; other < FDS && !conceals; other++)
            if (other != fd && inodes[other] == inode) unreported[other] = error;
    }
    pthread_mutex_unlock(&lock);
    if (is_of_thread) end_thread_fault();
    if (how == FAIL) {
        errno = error;
        return -1;
    }
    if (how == PRETEND || (data_only && is_lied_about[fd])) return 0;
    int result = syscall(call, fd);
    error = errno;
    after_call();
    pthread_mutex_lock(&lock);
    if (result == 0) record(SYNC, inode, covered, data_only, "", 0, "", 0);
    /* At the end, as Linux does: a sync that failed meanwhile may have lost the data of this one. */
    int unreported_error = unreported[fd];
    unreported[fd] = 0;
    pthread_mutex_unlock(&lock);
    errno = unreported_error && result == 0 ? unreported_error : error;
    return unreported_error ? -1 : result;
}

static void be_slow(void) {
    const struct timespec pause = {.tv_sec = 1, .tv_nsec = 100000000};
    if (slow && syscall(SYS_faccessat, AT_FDCWD, slow, F_OK) == 0) nanosleep(&pause, NULL);
}

int fsync(int fd) {
    be_slow();
    return do_sync(fd, SYS_fsync, 0);
}

int fdatasync(int fd) {
    be_slow();
    return do_sync(fd, SYS_fdatasync, 1);
}

/* Logs that the file is dropped from the page cache. */
int posix_fadvise64(int fd, off64_t from, off64_t length, int advice) {
    uint64_t inode = watched(fd);
    if (inode && advice == POSIX_FADV_DONTNEED && from == 0 && length == 0) {
        pthread_mutex_lock(&lock);
        record(CACHE_DROPPED, inode, 0, 0, "", 0, "", 0);
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_fadvise64, fd, from, length, advice) == 0 ? 0 : errno;
}

int posix_fadvise(int fd, off_t from, off_t length, int advice) {
    return posix_fadvise64(fd, from, length, advice);
}

int sync_file_range(int fd, off64_t from, off64_t length, unsigned flags) {
    if (watched(fd)) {
        int how = decide(SYNCING, 0);
        if (how == FAIL) return -1;
        if (how == PRETEND) return 0;
    }
    int result = syscall(SYS_sync_file_range, fd, from, length, flags);
    after_call();
    return result;
}

static int do_names(uint8_t op, int result, const char *first, const char *second) {
    int error = errno;
    after_call();
    if (result == 0) record(op, 0, 0, 0, first, strlen(first), second, strlen(second));
    pthread_mutex_unlock(&lock);
    await_thread_fault();
    errno = error;
    return result;
}

int rename(const char *from, const char *to) {
    if (!watched_path(from)) return syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(RENAME, syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to), from, to);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) {
    if (!watched_path(from)) return syscall(SYS_renameat2, at, from, to_at, to, flags);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    uint8_t op = flags & RENAME_EXCHANGE ? EXCHANGE : RENAME;
    return do_names(op, syscall(SYS_renameat2, at, from, to_at, to, flags), from, to);
}

int link(const char *from, const char *to) {
    if (!watched_path(from)) return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(LINK, syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0), from, to);
}

int unlinkat(int at, const char *name, int flags) {
    char buffer[PATH_MAX];
    const char *path = absolute(at, name, buffer);
    if (!watched_path(path)) return syscall(SYS_unlinkat, at, path, flags);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(UNLINK, syscall(SYS_unlinkat, at, path, flags), path, "");
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    if (!watched_path(path)) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    int how = decide(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(MKDIR, syscall(SYS_mkdirat, AT_FDCWD, path, mode), path, "");
}
