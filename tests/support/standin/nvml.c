/* Stands in for libnvidia-ml.so.1: the functions that envbuild calls through nvidia-ml-py, with the codes that
 * https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html lists. */
#include "scenario.h"

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, SMALL = 7, LOST = 15 };
typedef unsigned long long u64;
struct memory { u64 total, free, used; };
struct process_info { unsigned pid; u64 used; unsigned gi, ci; };
struct attributes { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; u64 memory; };
static int started;

#define BEGIN(g) do { int code_; if (!started) return UNINITIALIZED; \
    if ((code_ = answer(g, __func__, LOST))) return code_; } while (0)
#define WHOLE(g) ((g)->parent ? (g)->parent : (g))

static int text(char *to, unsigned size, const char *from) {
    if (strlen(from) + 1 > size) return SMALL;
    strcpy(to, from);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = answer(NULL, __func__, LOST);
    if (init_delay) usleep(init_delay);
    if (!code) started = 1;
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { BEGIN(NULL); started = 0; return OK; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 17: return "The operating system has blocked the request.";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { BEGIN(NULL); return text(to, size, driver); }
int nvmlSystemGetNVMLVersion(char *to, unsigned size) { BEGIN(NULL); return text(to, size, driver); }
int nvmlSystemGetCudaDriverVersion(int *to) { BEGIN(NULL); return *to = cuda_version, OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { BEGIN(NULL); return *to = cuda_version, OK; }
int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned size) {
    BEGIN(NULL);
    for (int i = 0; i < gpu_count + stored_slices; i++) {
        struct gpu *g = i < gpu_count ? &gpus[i] : &slice_store[i - gpu_count];
        for (int j = 0; j < g->process_count; j++)
            if (g->processes[j].pid == pid && g->processes[j].name[0]) return text(to, size, g->processes[j].name);
    }
    return NOT_FOUND;
}

int nvmlDeviceGetCount_v2(unsigned *to) { BEGIN(NULL); return *to = gpu_count, OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **to) {
    if (!started) return UNINITIALIZED;
    if (index >= (unsigned)gpu_count) return INVALID;
    BEGIN(&gpus[index]);
    return *to = &gpus[index], OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **to) {
    BEGIN(NULL);
    for (int i = 0; i < gpu_count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return *to = &gpus[i], OK;
    for (int i = 0; i < stored_slices; i++)
        if (!strcmp(slice_store[i].uuid, uuid)) return *to = &slice_store[i], OK;
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(struct gpu *g, unsigned *to) { BEGIN(g); return *to = WHOLE(g) - gpus, OK; }
int nvmlDeviceGetName(struct gpu *g, char *to, unsigned size) {
    char full[200];
    BEGIN(g);
    if (!g->parent) return text(to, size, g->name);
    snprintf(full, sizeof full, "%s MIG %s", g->parent->name, g->name);
    return text(to, size, full);
}
int nvmlDeviceGetUUID(struct gpu *g, char *to, unsigned size) { BEGIN(g); return text(to, size, g->uuid); }
int nvmlDeviceGetSerial(struct gpu *g, char *to, unsigned size) { BEGIN(g); return text(to, size, WHOLE(g)->serial); }
int nvmlDeviceGetVbiosVersion(struct gpu *g, char *to, unsigned size) {
    BEGIN(g);
    return g->parent ? NOT_SUPPORTED : text(to, size, g->vbios);
}
int nvmlDeviceGetBoardPartNumber(struct gpu *g, char *to, unsigned size) {
    BEGIN(g);
    return g->parent ? NOT_SUPPORTED : text(to, size, g->board);
}
int nvmlDeviceGetCudaComputeCapability(struct gpu *g, int *major, int *minor) {
    BEGIN(g);
    return *major = WHOLE(g)->major, *minor = WHOLE(g)->minor, OK;
}
int nvmlDeviceGetMemoryInfo(struct gpu *g, struct memory *to) {
    BEGIN(g);
    to->total = g->memory << 20, to->free = g->free << 20, to->used = to->total - to->free;
    return OK;
}
int nvmlDeviceGetEccMode(struct gpu *g, unsigned *now, unsigned *next) {
    BEGIN(g);
    return g->parent ? NOT_SUPPORTED : (*now = *next = g->ecc, OK);
}
int nvmlDeviceGetPersistenceMode(struct gpu *g, unsigned *to) {
    BEGIN(g);
    return g->parent ? NOT_SUPPORTED : (*to = g->persistence, OK);
}
int nvmlDeviceGetNumGpuCores(struct gpu *g, unsigned *to) {
    BEGIN(g);
    return g->parent || !g->cores ? NOT_SUPPORTED : (*to = g->cores, OK);
}

int nvmlDeviceGetMigMode(struct gpu *g, unsigned *now, unsigned *next) {
    BEGIN(g);
    return g->parent ? INVALID : (*now = *next = g->mig, OK);
}
int nvmlDeviceIsMigDeviceHandle(struct gpu *g, unsigned *to) { BEGIN(g); return *to = g->parent != NULL, OK; }
int nvmlDeviceGetMaxMigDeviceCount(struct gpu *g, unsigned *to) { BEGIN(g); return *to = g->mig ? 7 : 0, OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *g, unsigned index, struct gpu **to) {
    BEGIN(g);
    if (index >= (unsigned)g->slice_count) return NOT_FOUND;
    return *to = g->slices[index], OK;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct gpu *g, struct gpu **to) {
    BEGIN(g);
    return g->parent ? (*to = g->parent, OK) : INVALID;
}
int nvmlDeviceGetAttributes_v2(struct gpu *g, struct attributes *to) {
    BEGIN(g);
    if (!g->parent) return NOT_SUPPORTED;
    memset(to, 0, sizeof *to);
    to->sms = g->sms, to->gi_slices = g->slice_size, to->ci_slices = g->compute_size, to->memory = g->memory;
    return OK;
}

static int processes(struct gpu *g, unsigned *count, struct process_info *to) {
    unsigned room = *count;
    *count = g->process_count;
    if (g->process_count && (!to || room < *count)) return SMALL;
    for (int i = 0; i < g->process_count; i++) {
        struct process *p = &g->processes[i];
        to[i] = (struct process_info){p->pid, p->mib ? p->mib << 20 : ~0ULL, g->parent ? 1 : ~0u, g->parent ? 0 : ~0u};
    }
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *g, unsigned *count, struct process_info *to) {
    BEGIN(g);
    return processes(g, count, to);
}
int nvmlDeviceGetComputeRunningProcesses_v2(struct gpu *g, unsigned *count, struct process_info *to) {
    BEGIN(g);
    return processes(g, count, to);
}
