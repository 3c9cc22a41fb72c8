/* The same product, called from C: cblas_?gemm of a BLAS library opened at run time, timed as
 * gemmgrid times it. Warm-up, batch length and stop follow workflow/gemmgrid/measure/sampling.py;
 * operands lie as workflow/gemmgrid/measure/operands.py puts them: at the start of a page, in
 * memory for which huge pages are asked from 4 MiB on, as NumPy's allocator does.
 *
 * build: gcc -O2 -DBLASINT=int64_t -o gemm gemm.c -ldl -lm     (int32_t for an lp64 library)
 * usage: gemm LIBRARY PREFIX SUFFIX float32|float64 N WARMUP_S BATCH_S SAMPLE_S MIN_SAMPLES MAX_SAMPLES
 *        gemm …/libscipy_openblas64_.so scipy_ 64_ float64 512 0.1 0.001 0.25 10 2000
 * The number of threads is the library's own affair: OPENBLAS_NUM_THREADS.
 * prints one line of JSON; "elapsed_ns" is the length of each batch of "inner" calls, "check" the
 * relative error of one element of the result against a sum in long double.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096
#define LARGEST_BATCH (1L << 20)
#define WINDOW 5      /* batches in a third of the warm-up: sampling.WINDOW */
#define STEADY 0.03   /* sampling.STEADY */
#define PATIENCE 4    /* sampling.WARMUP_PATIENCE */

enum { ROW_MAJOR = 101, NO_TRANS = 111 };

typedef void (*sgemm_t)(int, int, int, BLASINT, BLASINT, BLASINT, float, const float *, BLASINT,
                        const float *, BLASINT, float, float *, BLASINT);
typedef void (*dgemm_t)(int, int, int, BLASINT, BLASINT, BLASINT, double, const double *, BLASINT,
                        const double *, BLASINT, double, double *, BLASINT);

static sgemm_t sgemm;
static dgemm_t dgemm;
static BLASINT n;
static void *A, *B, *C;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds that `inner` calls take. */
static int64_t batch(long inner)
{
    int64_t start = now_ns();
    if (sgemm)
        for (long i = 0; i < inner; i++)
            sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, A, n, B, n, 0, C, n);
    else
        for (long i = 0; i < inner; i++)
            dgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, A, n, B, n, 0, C, n);
    return now_ns() - start;
}

static double uniform(void) /* in (0, 1); xorshift64 */
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((state >> 11) + 0.5) * 0x1p-53;
}

/* An n×n matrix at the start of a page: standard normal (Box-Muller), or zeros. */
static void *make(int normal)
{
    size_t item = sgemm ? sizeof(float) : sizeof(double), bytes = (size_t)n * n * item;
    char *raw = malloc(bytes + PAGE);
    if (!raw) {
        fprintf(stderr, "no memory for a matrix of %zu bytes\n", bytes);
        exit(1);
    }
    char *start = raw + (-(uintptr_t)raw & (PAGE - 1));
    if (bytes + PAGE >= (1u << 22))
        madvise(start, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double z = normal ? sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform()) : 0;
        if (sgemm)
            ((float *)start)[i] = (float)z;
        else
            ((double *)start)[i] = z;
    }
    return start;
}

static double element(const void *matrix, size_t row, size_t column)
{
    size_t at = row * n + column;
    return sgemm ? ((const float *)matrix)[at] : ((const double *)matrix)[at];
}

/* Error of the last element over the size of its sum. */
static double check(void)
{
    long double sum = 0, a2 = 0, b2 = 0;
    for (BLASINT i = 0; i < n; i++) {
        long double a = element(A, n - 1, i), b = element(B, i, n - 1);
        sum += a * b;
        a2 += a * a;
        b2 += b * b;
    }
    return (double)(fabsl(sum - element(C, n - 1, n - 1)) / sqrtl(a2 * b2));
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *values, size_t count)
{
    double *sorted = malloc(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    double middle = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    free(sorted);
    return middle;
}

static int steady(const double *recent, size_t count)
{
    size_t third = count / 3;
    if (third < WINDOW)
        return 0;
    double before = median(recent + third, third), after = median(recent + count - third, third);
    return fabs(after - before) <= STEADY * before;
}

/* Calls until `planned` ns have gone by and the last third is steady; returns the batch length. */
static long warm_up(int64_t planned, int64_t target, double *seconds)
{
    size_t count = 0, room = 1024;
    double *recent = malloc(room * sizeof *recent);
    long inner = 1;
    int64_t start = now_ns();
    for (;;) {
        int64_t elapsed = batch(inner), spent = now_ns() - start;
        if (elapsed < target && inner < LARGEST_BATCH) {
            double wanted = 1.2 * inner * target / (elapsed > 0 ? elapsed : 1);
            long next = (long)fmin(wanted, 10.0 * inner);
            inner = next > inner ? next : inner + 1;
            inner = inner < LARGEST_BATCH ? inner : LARGEST_BATCH;
            count = 0;
            continue;
        }
        if (count == room)
            recent = realloc(recent, (room *= 2) * sizeof *recent);
        recent[count++] = (double)elapsed / inner;
        int done = spent >= planned && (steady(recent, count) || spent >= PATIENCE * planned);
        if (done || elapsed >= planned) {
            *seconds = spent / 1e9;
            free(recent);
            return inner;
        }
    }
}

static void *symbol(void *library, const char *prefix, const char *name, const char *suffix)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
    void *found = dlsym(library, full);
    if (!found) {
        fprintf(stderr, "the library has no %s\n", full);
        exit(1);
    }
    return found;
}

int main(int count, char **arguments)
{
    if (count != 11) {
        fprintf(stderr, "usage: gemm LIBRARY PREFIX SUFFIX DTYPE N WARMUP_S BATCH_S SAMPLE_S "
                        "MIN_SAMPLES MAX_SAMPLES\n");
        return 2;
    }
    const char *prefix = arguments[2], *suffix = arguments[3];
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (strcmp(arguments[4], "float32") == 0)
        sgemm = (sgemm_t)symbol(library, prefix, "cblas_sgemm", suffix);
    else
        dgemm = (dgemm_t)symbol(library, prefix, "cblas_dgemm", suffix);
    int (*threads)(void) = (int (*)(void))symbol(library, prefix, "openblas_get_num_threads", suffix);
    char *(*core)(void) = (char *(*)(void))symbol(library, prefix, "openblas_get_corename", suffix);
    n = (BLASINT)atol(arguments[5]);
    int64_t warmup = (int64_t)(1e9 * atof(arguments[6])), target = (int64_t)(1e9 * atof(arguments[7]));
    int64_t planned = (int64_t)(1e9 * atof(arguments[8]));
    long least = atol(arguments[9]), most = atol(arguments[10]);

    A = make(1);
    B = make(1);
    C = make(0);
    int64_t first = batch(1);
    double warmup_s;
    long inner = warm_up(warmup, target, &warmup_s), taken = 0;
    int64_t *elapsed = malloc(most * sizeof *elapsed), total = 0;
    do {
        total += elapsed[taken] = batch(inner);
        taken++;
    } while (taken < most && (taken < least || total < planned));

    printf("{\"threads\": %d, \"core\": \"%s\", \"first_call_ns\": %lld, \"warmup_s\": %.6f, "
           "\"inner\": %ld, \"check\": %.3e, \"addresses\": [\"%p\", \"%p\", \"%p\"], "
           "\"elapsed_ns\": [",
           threads(), core(), (long long)first, warmup_s, inner, check(), A, B, C);
    for (long i = 0; i < taken; i++)
        printf("%s%lld", i ? ", " : "", (long long)elapsed[i]);
    puts("]}");
    return 0;
}
