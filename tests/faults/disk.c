/* Preloaded into a daemon: lets writes of its database's files fail, as disk.py says.
 *
 * The control file is an array of 64-bit numbers, see disk.py. Everything else goes to the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4 };
enum { OPS, FILES, ERROR, SKIP, TIMES, SHORT, HITS };
enum { MAIN_FILE = 1, LOG_FILE = 2, COPY_FILE = 4 };

static volatile long long *control;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISK_CONTROL");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *found = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (found != MAP_FAILED) control = found;
  close(fd);
}

static int ends_with(const char *name, const char *end) {
  size_t a = strlen(name), b = strlen(end);
  return a >= b && !strcmp(name + a - b, end);
}

static int file_of(int fd) {
  char link[64], name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 0) return 0;
  name[length] = 0;
  if (ends_with(name, "/scheduler.db")) return MAIN_FILE;
  if (ends_with(name, "/scheduler.db-wal")) return LOG_FILE;
  if (ends_with(name, ".copying") || ends_with(name, ".copying-journal")) return COPY_FILE;
  return 0;
}

/* Whether this call fails. */
static int fails(int op, int fd) {
  if (!control || !(control[OPS] & op) || !(control[FILES] & file_of(fd))) return 0;
  if (__sync_fetch_and_sub(&control[SKIP], 1) > 0) return 0;
  if (__sync_fetch_and_sub(&control[TIMES], 1) <= 0) return 0;
  __sync_fetch_and_add(&control[HITS], 1);
  return 1;
}

static ssize_t written(int fd, const void *data, size_t length, off_t at) {
  if (fails(WRITE, fd)) {
    if (control[SHORT]) return syscall(SYS_pwrite64, fd, data, length / 2, at);
    errno = (int)control[ERROR];
    return -1;
  }
  return syscall(SYS_pwrite64, fd, data, length, at);
}

static int done(int op, int fd, long number, long argument) {
  if (fails(op, fd)) {
    errno = (int)control[ERROR];
    return -1;
  }
  return (int)syscall(number, fd, argument);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return written(fd, data, length, at); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) { return written(fd, data, length, at); }
int fsync(int fd) { return done(SYNC, fd, SYS_fsync, 0); }
int fdatasync(int fd) { return done(SYNC, fd, SYS_fdatasync, 0); }
int ftruncate(int fd, off_t length) { return done(TRUNCATE, fd, SYS_ftruncate, length); }
int ftruncate64(int fd, off64_t length) { return done(TRUNCATE, fd, SYS_ftruncate, length); }
