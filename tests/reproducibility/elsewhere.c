/* A library to preload, so that a program sees another machine than this one; glibc programs only, static ones do not.
 *
 * Compiled with any of:
 *   -DCLOCK=SECONDS  the wall clock is that much ahead (or behind)
 *   -DORDER          folders list their entries the other way round
 *   -DKERNEL         uname(2) tells another kernel
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

#define REAL(type, name, ...) type (*real)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#ifdef CLOCK
int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) now->tv_sec += CLOCK;
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
#endif

#ifdef KERNEL
int uname(struct utsname *names) {
    REAL(int, "uname", struct utsname *);
    int result = real(names);
    if (result == 0) {
        strcpy(names->release, "6.99.0-elsewhere");
        strcpy(names->version, "#9 SMP elsewhere");
    }
    return result;
}
#endif

#ifdef ORDER
struct listing {
    DIR *stream;
    struct dirent **entries;
    size_t count, next;
    struct listing *rest;
};

static struct listing *listings;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* Take a stream's listing off the list, if there is one. */
static void forget(DIR *stream) {
    for (struct listing **place = &listings; *place; place = &(*place)->rest) {
        struct listing *one = *place;
        if (one->stream != stream) continue;
        *place = one->rest;
        for (size_t i = 0; i < one->count; i++) free(one->entries[i]);
        free(one->entries);
        free(one);
        return;
    }
}

/* Return a stream's listing, read now if need be. */
static struct listing *listing_of(DIR *stream) {
    REAL(struct dirent *, "readdir", DIR *);
    for (struct listing *one = listings; one; one = one->rest)
        if (one->stream == stream) return one;
    struct listing *one = calloc(1, sizeof *one);
    one->stream = stream;
    for (struct dirent *entry; (entry = real(stream));) {
        one->entries = realloc(one->entries, (one->count + 1) * sizeof *one->entries);
        one->entries[one->count] = malloc(sizeof **one->entries);
        memcpy(one->entries[one->count++], entry, entry->d_reclen < sizeof *entry ? entry->d_reclen : sizeof *entry);
    }
    one->rest = listings;
    listings = one;
    return one;
}

struct dirent *readdir(DIR *stream) {
    pthread_mutex_lock(&guard);
    struct listing *one = listing_of(stream);
    struct dirent *entry = one->next < one->count ? one->entries[one->count - ++one->next] : NULL;
    pthread_mutex_unlock(&guard);
    return entry;
}

struct dirent64 *readdir64(DIR *stream) { return (struct dirent64 *)readdir(stream); }

long telldir(DIR *stream) {
    pthread_mutex_lock(&guard);
    long place = (long)listing_of(stream)->next;
    pthread_mutex_unlock(&guard);
    return place;
}

void seekdir(DIR *stream, long place) {
    pthread_mutex_lock(&guard);
    listing_of(stream)->next = (size_t)place;
    pthread_mutex_unlock(&guard);
}

void rewinddir(DIR *stream) {
    REAL(void, "rewinddir", DIR *);
    pthread_mutex_lock(&guard);
    forget(stream);
    pthread_mutex_unlock(&guard);
    real(stream);
}

int closedir(DIR *stream) {
    REAL(int, "closedir", DIR *);
    pthread_mutex_lock(&guard);
    forget(stream);
    pthread_mutex_unlock(&guard);
    return real(stream);
}
#endif
