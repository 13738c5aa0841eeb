/* Stands in for libcuda.so.1: the calls that envbuild makes to learn SM counts and what CUDA_VISIBLE_DEVICES leaves.
 * Codes: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html; CUDA_VISIBLE_DEVICES and MIG enumeration:
 * https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (a process sees one slice, and then no whole GPU). */
#include "scenario.h"

enum { OK, INVALID_VALUE, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, LOST = 999 };
static struct gpu *visible[MAX_GPUS * MAX_SLICES];
static int visible_count, started;

#define BEGIN(g) do { int code_; if (!started) return NOT_INITIALIZED; \
    if ((code_ = answer(g, __func__, LOST))) return code_; } while (0)
#define WHOLE(g) ((g)->parent ? (g)->parent : (g))

static int candidates(struct gpu **to) {
    int count = 0;
    for (int i = 0; i < gpu_count; i++)
        for (int j = 0; j < gpus[i].slice_count; j++) to[count++] = gpus[i].slices[j];
    if (count) return all_slices ? count : 1;
    for (int i = 0; i < gpu_count; i++)
        if (!gpus[i].mig) to[count++] = &gpus[i];
    return count;
}

static struct gpu *by_uuid(const char *prefix) {
    for (int i = 0; i < gpu_count; i++)
        if (!gpus[i].mig && !strncmp(gpus[i].uuid, prefix, strlen(prefix))) return &gpus[i];
    for (int i = 0; i < stored_slices; i++)
        if (!strncmp(slice_store[i].uuid, prefix, strlen(prefix))) return &slice_store[i];
    return NULL;
}

static void enumerate(void) {
    struct gpu *all[MAX_GPUS * MAX_SLICES];
    int count = candidates(all);
    const char *wish = getenv("CUDA_VISIBLE_DEVICES");
    char words[2048], *save = NULL;
    visible_count = 0;
    if (!wish) {
        memcpy(visible, all, sizeof all);
        visible_count = count;
        return;
    }
    snprintf(words, sizeof words, "%s", wish);
    for (char *word = strtok_r(words, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *end;
        long index = strtol(word, &end, 10);
        struct gpu *found = !*end && end != word ? (index >= 0 && index < count ? all[index] : NULL) : by_uuid(word);
        if (!found) return; /* the first invalid entry ends the list */
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == found) { /* named twice: none at all */
                visible_count = 0;
                return;
            }
        visible[visible_count++] = found;
    }
}

int cuInit(unsigned flags) {
    int code = answer(NULL, __func__, LOST);
    if (flags) return INVALID_VALUE;
    if (code) return code;
    enumerate();
    if (!visible_count) return NO_DEVICE;
    started = 1;
    return OK;
}
int cuDriverGetVersion(int *to) {
    int code = answer(NULL, __func__, LOST);
    return code ? code : (*to = cuda_version, OK);
}
int cuGetErrorName(int code, const char **to) {
    switch (code) {
    case NO_DEVICE: *to = "CUDA_ERROR_NO_DEVICE"; return OK;
    case 802: *to = "CUDA_ERROR_SYSTEM_NOT_READY"; return OK;
    case 803: *to = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return OK;
    case 804: *to = "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"; return OK;
    case 999: *to = "CUDA_ERROR_UNKNOWN"; return OK;
    default: *to = NULL; return INVALID_VALUE;
    }
}
int cuGetErrorString(int code, const char **to) {
    switch (code) {
    case NO_DEVICE: *to = "no CUDA-capable device is detected"; return OK;
    case 802: *to = "system not yet initialized"; return OK;
    case 803: *to = "system has unsupported display driver / cuda driver combination"; return OK;
    case 804: *to = "forward compatibility was attempted on non supported HW"; return OK;
    case 999: *to = "unknown error"; return OK;
    default: *to = NULL; return INVALID_VALUE;
    }
}
int cuDeviceGetCount(int *to) { BEGIN(NULL); return *to = visible_count, OK; }
int cuDeviceGet(int *to, int index) {
    BEGIN(NULL);
    return index < 0 || index >= visible_count ? INVALID_DEVICE : (*to = index, OK);
}
int cuDeviceGetName(char *to, int size, int device) {
    struct gpu *g = visible[device];
    BEGIN(g);
    if (g->parent) snprintf(to, size, "%s MIG %s", g->parent->name, g->name);
    else snprintf(to, size, "%s", g->name);
    return OK;
}
int cuDeviceGetUuid_v2(unsigned char *to, int device) {
    struct gpu *g = visible[device];
    const char *hex = strchr(g->uuid, '-');
    int done = 0;
    BEGIN(g);
    memset(to, 0, 16);
    for (hex = hex ? hex : ""; *hex && done < 16; hex++) {
        unsigned byte;
        if (*hex == '-') continue;
        if (sscanf(hex, "%2x", &byte) != 1) break;
        to[done++] = byte, hex++;
    }
    return OK;
}
int cuDeviceGetAttribute(int *to, int attribute, int device) {
    struct gpu *g = visible[device];
    BEGIN(g);
    switch (attribute) {
    case 16: *to = g->sms; return OK;
    case 75: *to = WHOLE(g)->major; return OK;
    case 76: *to = WHOLE(g)->minor; return OK;
    default: return INVALID_VALUE;
    }
}
int cuDeviceTotalMem_v2(size_t *to, int device) {
    struct gpu *g = visible[device];
    BEGIN(g);
    return *to = (size_t)g->memory << 20, OK;
}
