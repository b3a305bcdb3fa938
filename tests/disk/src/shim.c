/* Logs everything that a process does to the files under SHIM_ROOT to SHIM_LOG, in order across
 * threads, so that the disk can be put together again as of any moment. Loaded with LD_PRELOAD.
 *
 * A write is logged and done under one lock. A sync is logged when it is over, with the number of
 * records there were when it began: it covers those and no later ones. sync_file_range is left
 * alone: it promises nothing about a power cut. What is written to SHIM_ACKS is logged as well,
 * so that acknowledgements stand in the same order.
 *
 * SHIM_FAULT "what at errno stays": the at-th change (what 0) or sync (1) fails with errno, and with
 * stays 1 all later ones; errno 0 says that it was done, and does nothing. A disk that is full takes
 * half of a write first, up to the end of a sector. With stays n every n-th of them fails, from the
 * at-th on. A sync that fails is logged: what it was to cover is lost, whatever is synced later. Every
 * other descriptor that the file has then is told once, at its next sync, as Linux does (errseq_t).
 *
 * SHIM_BESIDE "at errno name": the first sync by a thread of that name after the at-th change fails. Whoever
 * made that change hears of it only then, or after a second.
 *
 * SHIM_KILL "what at after": the process is killed at the at-th change or sync, before it is done
 * (after 0) or when it was done and before its caller hears of it (after 1).
 *
 * SHIM_HOLD "n": the last n writes to the journal and its mark stay in memory, though the program is
 * told that they were done; they are done in order, each when the n-th after it comes, all when the
 * process exits. Who is killed loses them: this is a reply before its commit, from outside.
 *
 * SHIM_LIES: fdatasync does nothing and says it did. SHIM_COUNTS: a file that holds the number of
 * changes, of syncs and of faults, as u64 each; faults and kills need it.
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

enum { OPEN = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, LINK, ACK, EXCHANGE, LOST, FORGOTTEN };
enum { CREATED = 1, TRUNCATED = 2 };
enum { FDS = 65536, ACKS = 1, HELD = 64, SECTOR = 512 };
enum { CHANGE = 0, SYNCING, MET };
enum { DO = 0, DO_HALF, PRETEND, FAIL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *acks;
static int log_fd = -1;
static int counts_fd = -1, lies;
static uint64_t records, counts[3], fault_at;
static int fault_what = -1, fault_errno;
static uint64_t fault_stays;
static int kill_what = -1, kill_after;
static uint64_t kill_at;
static uint64_t beside_at;
static int beside_errno;
static char beside[16];
static enum { NOT_YET, AWAITED, OVER } beside_is;
static pthread_cond_t beside_over = PTHREAD_COND_INITIALIZER;
static __thread int dying, waits;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inodes[FDS]; /* 0: not watched; ACKS: acknowledgements */
static int owed[FDS]; /* the error of a sync by way of another descriptor */

/* Writes that are held back, the oldest first. */
static struct { int fd; off_t at; size_t length; void *bytes; } held[HELD];
static int holds, held_count;
static unsigned char is_held[FDS];

__attribute__((constructor)) static void begin(void) {
    root = getenv("SHIM_ROOT");
    acks = getenv("SHIM_ACKS");
    const char *path = getenv("SHIM_LOG");
    if (root && path)
        log_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    lies = getenv("SHIM_LIES") != NULL;
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
    const char *of = getenv("SHIM_BESIDE");
    if (of && sscanf(of, "%lu %d %15[^\n]", &at, &beside_errno, beside) != 3) abort();
    if (of) beside_at = at;
    const char *hold = getenv("SHIM_HOLD");
    if (hold && (sscanf(hold, "%d", &holds) != 1 || holds < 1 || holds > HELD)) abort();
}

/* The whole process, at once. */
static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* A call was done. */
static void over(void) {
    if (dying) die();
}

static int is_beside(void) {
    char name[16];
    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, beside) == 0;
}

/* Waits for the sync beside the change that was just made, if that is to fail. */
static void wait_beside(void) {
    if (!waits) return;
    waits = 0;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&fault_lock);
    beside_is = AWAITED;
    while (beside_is == AWAITED && !is_beside())
        if (pthread_cond_timedwait(&beside_over, &fault_lock, &until) == ETIMEDOUT) break;
    pthread_mutex_unlock(&fault_lock);
}

/* Whether this sync is the one that fails beside a change. */
static int fails_beside(void) {
    if (!beside_at || !is_beside()) return 0;
    pthread_mutex_lock(&fault_lock);
    int fails = beside_is == AWAITED;
    if (fails) counts[MET]++;
    if (fails && syscall(SYS_pwrite64, counts_fd, counts, sizeof counts, 0) != sizeof counts) abort();
    pthread_mutex_unlock(&fault_lock);
    return fails;
}

/* It has failed, and whoever waits goes on. */
static void failed_beside(void) {
    pthread_mutex_lock(&fault_lock);
    beside_is = OVER;
    pthread_cond_broadcast(&beside_over);
    pthread_mutex_unlock(&fault_lock);
}

/* What becomes of a change or a sync. */
static int fate(int what, size_t length) {
    if (counts_fd < 0) return DO;
    pthread_mutex_lock(&fault_lock);
    uint64_t n = ++counts[what];
    /* The write that fits half is followed by one that does not fit at all. */
    uint64_t last = fault_errno == ENOSPC ? fault_at + 1 : fault_at;
    int met = what == fault_what && n >= fault_at &&
              (n <= last || (fault_stays && (n - fault_at) % fault_stays == 0));
    int dies = what == kill_what && n == kill_at;
    if (met || dies) counts[MET]++;
    waits = what == CHANGE && n == beside_at;
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

/* How much of a write a full disk takes: half of it, up to the end of a sector. */
static size_t half(size_t length, off_t at) {
    off_t end = at + length / 2;
    end -= end % SECTOR;
    return end > at ? end - at : 0;
}

static void out(const void *bytes, size_t length) {
    while (length > 0) {
        ssize_t done = syscall(SYS_write, log_fd, bytes, length);
        if (done <= 0) abort();
        bytes = (const char *)bytes + done;
        length -= done;
    }
}

static void note(uint8_t op, uint64_t inode, uint64_t a, uint64_t b, const void *first, uint32_t n1,
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
            size_t over = skip < parts[i].iov_len ? skip : parts[i].iov_len;
            out((const char *)parts[i].iov_base + over, parts[i].iov_len - over);
            skip -= over;
        }
    }
    records++;
}

static int watched_path(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return root && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static uint64_t watched(int fd) { return root && fd >= 0 && fd < FDS ? inodes[fd] : 0; }

/* Does held writes, under the lock, until at most `left` are held. */
static void release(int left) {
    while (held_count > left) {
        size_t length = held[0].length;
        if (syscall(SYS_pwrite64, held[0].fd, held[0].bytes, length, held[0].at) != (ssize_t)length) abort();
        free(held[0].bytes);
        memmove(held, held + 1, --held_count * sizeof held[0]);
    }
}

static ssize_t hold(int fd, const void *bytes, size_t length, off_t at) {
    void *copy = malloc(length);
    if (!copy) abort();
    memcpy(copy, bytes, length);
    pthread_mutex_lock(&lock);
    release(holds - 1);
    held[held_count].fd = fd;
    held[held_count].at = at;
    held[held_count].length = length;
    held[held_count++].bytes = copy;
    over();
    pthread_mutex_unlock(&lock);
    return length;
}

static void release_all(void) {
    pthread_mutex_lock(&lock);
    release(0);
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void) { release_all(); }

static int is_journal(const char *path) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return strncmp(name, "journal.", 8) == 0 || strcmp(name, "callboard-mark") == 0;
}

/* The whole path of a name in a directory that is watched, in `room`; any other as it is. */
static const char *whole(int at, const char *path, char room[PATH_MAX]) {
    if (path[0] == '/' || !watched(at)) return path;
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, room, PATH_MAX);
    if (length < 0 || length + strlen(path) + 2 > PATH_MAX) abort();
    room[length] = '/';
    strcpy(room + length + 1, path);
    return room;
}

static int do_open(int at, const char *name, int flags, mode_t mode) {
    char room[PATH_MAX];
    const char *path = whole(at, name, room);
    int is_acks = log_fd >= 0 && acks && strcmp(path, acks) == 0;
    if (!is_acks && !watched_path(path)) return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat info;
    int there = syscall(SYS_newfstatat, AT_FDCWD, path, &info, 0) == 0;
    if (!is_acks && (flags & (O_CREAT | O_TRUNC)) && (!there || (flags & O_TRUNC)) && fate(CHANGE, 0) == FAIL) {
        int error = errno;
        pthread_mutex_unlock(&lock);
        errno = error;
        return -1;
    }
    int fd = syscall(SYS_openat, at, path, flags, mode);
    int error = errno;
    over();
    if (fd >= FDS) abort();
    if (fd >= 0) is_held[fd] = holds && is_journal(path);
    if (fd >= 0 && is_acks) inodes[fd] = ACKS;
    if (fd >= 0 && !is_acks) {
        if (fstat(fd, &info) != 0) abort();
        inodes[fd] = info.st_ino;
        owed[fd] = 0;
        uint64_t what = (there ? 0 : CREATED) | (there && (flags & O_TRUNC) ? TRUNCATED : 0);
        note(OPEN, info.st_ino, what, S_ISDIR(info.st_mode), path, strlen(path), "", 0);
    }
    pthread_mutex_unlock(&lock);
    wait_beside();
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
        if (is_held[fd]) release_all();
        is_held[fd] = 0;
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
        is_held[result] = is_held[fd];
        owed[result] = owed[fd];
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
    int how = fate(CHANGE, length);
    if (how == FAIL) return -1;
    if (how == PRETEND) return length;
    if (how == DO_HALF && !(length = half(length, at))) {
        errno = fault_errno;
        return -1;
    }
    if (is_held[fd]) return hold(fd, bytes, length, at);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, length, at);
    int error = errno;
    over();
    if (done > 0) note(WRITE, inode, at, 0, bytes, done, "", 0);
    pthread_mutex_unlock(&lock);
    wait_beside();
    errno = error;
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }

ssize_t write(int fd, const void *bytes, size_t length) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(SYS_write, fd, bytes, length);
    int how = inode == ACKS ? DO : fate(CHANGE, length);
    if (how == FAIL) return -1;
    if (how == PRETEND) return length;
    if (how == DO_HALF && !(length = half(length, syscall(SYS_lseek, fd, 0, SEEK_CUR)))) {
        errno = fault_errno;
        return -1;
    }
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, fd, bytes, length);
    int error = errno;
    over();
    if (done > 0 && inode == ACKS) note(ACK, 0, 0, 0, bytes, done, "", 0);
    /* Where it went: right before where the file stands now, with O_APPEND too. */
    if (done > 0 && inode != ACKS) note(WRITE, inode, syscall(SYS_lseek, fd, 0, SEEK_CUR) - done, 0, bytes, done, "", 0);
    pthread_mutex_unlock(&lock);
    wait_beside();
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

/* Whoever asks the kernel to copy falls back to writing. */
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
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_ftruncate, fd, length);
    int error = errno;
    over();
    if (result == 0) note(TRUNCATE, inode, length, 0, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    wait_beside();
    errno = error;
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int do_sync(int fd, long call, uint64_t data_only) {
    uint64_t inode = watched(fd);
    if (!inode) return syscall(call, fd);
    int how = fate(SYNCING, 0), error = fault_errno, is_one_beside = fails_beside();
    if (is_one_beside) how = FAIL, error = beside_errno;
    pthread_mutex_lock(&lock);
    uint64_t covered = records;
    int owes = owed[fd];
    owed[fd] = 0;
    if (how == FAIL) {
        note(LOST, inode, covered, 0, "", 0, "", 0);
        for (int other = 0; other < FDS; other++)
            if (other != fd && inodes[other] == inode) owed[other] = error;
    }
    pthread_mutex_unlock(&lock);
    if (is_one_beside) failed_beside();
    if (how == FAIL) {
        errno = error;
        return -1;
    }
    if (how == PRETEND || (lies && data_only)) return 0;
    int result = syscall(call, fd);
    error = errno;
    over();
    pthread_mutex_lock(&lock);
    if (result == 0) note(SYNC, inode, covered, data_only, "", 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = owes && result == 0 ? owes : error;
    return owes ? -1 : result;
}

int fsync(int fd) { return do_sync(fd, SYS_fsync, 0); }
int fdatasync(int fd) { return do_sync(fd, SYS_fdatasync, 1); }

/* The system is to forget what it knows of the file. */
int posix_fadvise64(int fd, off64_t from, off64_t length, int advice) {
    uint64_t inode = watched(fd);
    if (inode && advice == POSIX_FADV_DONTNEED && from == 0 && length == 0) {
        pthread_mutex_lock(&lock);
        note(FORGOTTEN, inode, 0, 0, "", 0, "", 0);
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_fadvise64, fd, from, length, advice) == 0 ? 0 : errno;
}

int posix_fadvise(int fd, off_t from, off_t length, int advice) {
    return posix_fadvise64(fd, from, length, advice);
}

int sync_file_range(int fd, off64_t from, off64_t length, unsigned flags) {
    if (watched(fd)) {
        int how = fate(SYNCING, 0);
        if (how == FAIL) return -1;
        if (how == PRETEND) return 0;
    }
    int result = syscall(SYS_sync_file_range, fd, from, length, flags);
    over();
    return result;
}

static int do_names(uint8_t op, int result, const char *first, const char *second) {
    int error = errno;
    over();
    if (result == 0) note(op, 0, 0, 0, first, strlen(first), second, strlen(second));
    pthread_mutex_unlock(&lock);
    wait_beside();
    errno = error;
    return result;
}

int rename(const char *from, const char *to) {
    if (!watched_path(from)) return syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(RENAME, syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to), from, to);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) {
    if (!watched_path(from)) return syscall(SYS_renameat2, at, from, to_at, to, flags);
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    uint8_t op = flags & RENAME_EXCHANGE ? EXCHANGE : RENAME;
    return do_names(op, syscall(SYS_renameat2, at, from, to_at, to, flags), from, to);
}

int link(const char *from, const char *to) {
    if (!watched_path(from)) return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(LINK, syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0), from, to);
}

int unlinkat(int at, const char *name, int flags) {
    char room[PATH_MAX];
    const char *path = whole(at, name, room);
    if (!watched_path(path)) return syscall(SYS_unlinkat, at, path, flags);
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(UNLINK, syscall(SYS_unlinkat, at, path, flags), path, "");
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    if (!watched_path(path)) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    int how = fate(CHANGE, 0);
    if (how == FAIL) return -1;
    if (how == PRETEND) return 0;
    pthread_mutex_lock(&lock);
    return do_names(MKDIR, syscall(SYS_mkdirat, AT_FDCWD, path, mode), path, "");
}
