/* The machine that both stand-in libraries pretend to be, read from a text file (tests/support/gpus.py writes it).
 *
 * Lines are "key = value"; "[gpu]" begins a GPU and "[slice]" a MIG slice of the last GPU, and the keys below it are its
 * own. The file is named by ENVBUILD_STANDIN, else it is "standin.conf" next to the library, so that a container needs no
 * variable. "return.FUNCTION = CODE" makes a call answer CODE: for all devices at the top, for one below its heading.
 * CODE -1: the call never returns; -2: it crashes; -3: it prints to standard output, then answers as usual.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GPUS 16
#define MAX_SLICES 8
#define MAX_CODES 40
#define MAX_PROCESSES 8

struct code { char function[64]; int value; };
struct process { unsigned pid; unsigned long long mib; char name[64]; };
struct gpu {
    char name[96], uuid[96], vbios[32], board[80], serial[32];
    int major, minor, sms, cores, mig, ecc, persistence, slice_size, compute_size;
    unsigned long long memory, free; /* MiB */
    int lost_after, calls;           /* calls until the GPU falls off the bus; -1: never */
    struct code codes[MAX_CODES];
    int code_count;
    struct process processes[MAX_PROCESSES];
    int process_count;
    struct gpu *parent, *slices[MAX_SLICES];
    int slice_count;
};

static struct gpu gpus[MAX_GPUS], slice_store[MAX_GPUS * MAX_SLICES];
static int gpu_count, stored_slices, loaded;
static struct code codes[MAX_CODES];
static int code_count;
static char driver[64] = "580.159.04";
static int cuda_version = 13000, all_slices;
static long delay, init_delay; /* microseconds */

static void add_code(struct code *table, int *count, const char *function, const char *value) {
    if (*count >= MAX_CODES) abort();
    snprintf(table[*count].function, sizeof table[0].function, "%s", function);
    table[(*count)++].value = atoi(value);
}

static void gpu_key(struct gpu *g, const char *key, const char *value) {
    if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", value);
    else if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
    else if (!strcmp(key, "vbios")) snprintf(g->vbios, sizeof g->vbios, "%s", value);
    else if (!strcmp(key, "board")) snprintf(g->board, sizeof g->board, "%s", value);
    else if (!strcmp(key, "serial")) snprintf(g->serial, sizeof g->serial, "%s", value);
    else if (!strcmp(key, "compute-capability")) sscanf(value, "%d.%d", &g->major, &g->minor);
    else if (!strcmp(key, "sms")) g->sms = atoi(value);
    else if (!strcmp(key, "cores")) g->cores = atoi(value);
    else if (!strcmp(key, "memory")) g->memory = strtoull(value, NULL, 10);
    else if (!strcmp(key, "free")) g->free = strtoull(value, NULL, 10);
    else if (!strcmp(key, "mig")) g->mig = atoi(value);
    else if (!strcmp(key, "ecc")) g->ecc = atoi(value);
    else if (!strcmp(key, "persistence")) g->persistence = atoi(value);
    else if (!strcmp(key, "slice-size")) g->slice_size = atoi(value);
    else if (!strcmp(key, "compute-size")) g->compute_size = atoi(value);
    else if (!strcmp(key, "lost-after")) g->lost_after = atoi(value);
    else if (!strncmp(key, "return.", 7)) add_code(g->codes, &g->code_count, key + 7, value);
    else if (!strcmp(key, "process") && g->process_count < MAX_PROCESSES) {
        struct process *p = &g->processes[g->process_count++];
        sscanf(value, "%u %llu %63[^\n]", &p->pid, &p->mib, p->name);
    } else {
        fprintf(stderr, "standin: unknown key of a GPU: %s\n", key);
        abort();
    }
}

static void top_key(const char *key, const char *value) {
    if (!strcmp(key, "driver")) snprintf(driver, sizeof driver, "%s", value);
    else if (!strcmp(key, "cuda")) cuda_version = atoi(value);
    else if (!strcmp(key, "delay")) delay = atol(value);
    else if (!strcmp(key, "init-delay")) init_delay = atol(value);
    else if (!strcmp(key, "all-slices")) all_slices = atoi(value);
    else if (!strncmp(key, "return.", 7)) add_code(codes, &code_count, key + 7, value);
    else {
        fprintf(stderr, "standin: unknown key: %s\n", key);
        abort();
    }
}

static struct gpu *heading(const char *line) {
    struct gpu *g;
    if (!strcmp(line, "[gpu]") && gpu_count < MAX_GPUS) {
        g = &gpus[gpu_count++];
    } else if (!strcmp(line, "[slice]") && gpu_count && gpus[gpu_count - 1].slice_count < MAX_SLICES) {
        struct gpu *parent = &gpus[gpu_count - 1];
        g = &slice_store[stored_slices++];
        g->parent = parent;
        parent->slices[parent->slice_count++] = g;
    } else {
        fprintf(stderr, "standin: bad heading: %s\n", line);
        abort();
    }
    g->lost_after = -1;
    return g;
}

static void load(void) {
    char path[4096], line[512];
    const char *named = getenv("ENVBUILD_STANDIN");
    Dl_info self;
    struct gpu *g = NULL;
    FILE *file;
    if (loaded) return;
    loaded = 1;
    if (named) {
        snprintf(path, sizeof path, "%s", named);
    } else if (dladdr((void *)load, &self)) {
        snprintf(path, sizeof path - 16, "%s", self.dli_fname);
        strcpy(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, "standin.conf");
    }
    if (!(file = fopen(path, "r"))) {
        fprintf(stderr, "standin: no scenario at %s\n", path);
        abort();
    }
    while (fgets(line, sizeof line, file)) {
        char *value = strstr(line, " = ");
        line[strcspn(line, "\n")] = 0;
        if (!line[0] || line[0] == '#') continue;
        if (line[0] == '[') {
            g = heading(line);
        } else if (value) {
            *value = 0;
            if (g) gpu_key(g, line, value + 3);
            else top_key(line, value + 3);
        }
    }
    fclose(file);
}

static int find_code(struct code *table, int count, const char *function, int *value) {
    for (int i = 0; i < count; i++)
        if (!strcmp(table[i].function, function)) return *value = table[i].value, 1;
    return 0;
}

static int misbehave(int code) {
    while (code == -1) pause();
    if (code == -2) raise(SIGSEGV);
    if (code == -3) {
        puts("NVIDIA: a library talks to the user");
        fflush(stdout);
    }
    return code < 0 ? 0 : code;
}

/* What a call answers before it looks at anything: the scenario's code, a lost GPU (`lost`), or 0. */
static int answer(struct gpu *g, const char *function, int lost) {
    int value = 0;
    load();
    if (delay) usleep(delay);
    if (g) {
        struct gpu *whole = g->parent ? g->parent : g;
        if (whole->lost_after >= 0 && whole->calls++ >= whole->lost_after) return lost;
        if (find_code(g->codes, g->code_count, function, &value)) return misbehave(value);
        if (g->parent && find_code(whole->codes, whole->code_count, function, &value)) return misbehave(value);
    }
    find_code(codes, code_count, function, &value);
    return misbehave(value);
}
