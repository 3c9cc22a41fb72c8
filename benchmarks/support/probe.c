/* What measure/probe measures, as a C compiler makes it: the rival of benchmarks/probe.py.
   `trip`, `arithmetic` and `memory` fill out[repeat] with nanoseconds a trip, operations a second of
   all CPUs, bytes a second of all CPUs. Build: gcc -O3 -march=native -ffast-math -shared -fPIC -pthread */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
}

struct team {
    const int *cpus;
    int count, repeats;
    long n;
    double *out;
    atomic_int arrived;
    _Alignas(256) atomic_long lines[32][32];
    double seconds[64][32];
};
struct seat {
    struct team *team;
    int number;
    void *(*work)(struct team *, int);
    pthread_t thread;
};

static void *seated(void *given) {
    struct seat *seat = given;
    pin(seat->team->cpus[seat->number]);
    return seat->work(seat->team, seat->number);
}

static void arrive(struct team *team, int repeat) {
    atomic_fetch_add(&team->arrived, 1);
    while (atomic_load_explicit(&team->arrived, memory_order_acquire) < (repeat + 1) * team->count)
        __builtin_ia32_pause();
}

static void together(struct team *team, void *(*work)(struct team *, int)) {
    struct seat seats[64];
    for (int i = 0; i < team->count; i++) {
        seats[i] = (struct seat){team, i, work, 0};
        pthread_create(&seats[i].thread, 0, seated, &seats[i]);
    }
    for (int i = 0; i < team->count; i++) pthread_join(seats[i].thread, 0);
}

static void *bounce(struct team *team, int number) {
    for (int r = 0; r < team->repeats; r++) {
        atomic_long *line = &team->lines[r][0];
        arrive(team, r);
        double start = now();
        for (long i = 0; i < team->n; i++) {
            while (atomic_load_explicit(line, memory_order_acquire) != 2 * i + number)
                __builtin_ia32_pause();
            atomic_store_explicit(line, 2 * i + number + 1, memory_order_release);
        }
        if (!number) team->out[r] = 1e9 * (now() - start) / (team->n - 0.5);
    }
    return 0;
}

#define WIDE 64
#define SUMS 20
typedef float single __attribute__((vector_size(WIDE)));
typedef double twice __attribute__((vector_size(WIDE)));
#define ALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) \
    M(14) M(15) M(16) M(17) M(18) M(19)
#define START(i) sum##i = one;
#define ADD(i) sum##i = one * eighth + sum##i; __asm__ volatile("" : "+v"(sum##i), "+v"(one));
#define KEEP(i) __asm__ volatile("" ::"v"(sum##i));
#define NAME(i) sum##i,
#define LOOP(name, type)                                                                    \
    static void *name(struct team *team, int number) {                                     \
        for (int r = 0; r < team->repeats; r++) {                                          \
            type one = (type){} + 1, eighth = (type){} + 0.125, ALL(NAME) unused;          \
            ALL(START)                                                                     \
            __asm__ volatile("" : "+v"(one), "+v"(eighth), "=v"(unused));                  \
            arrive(team, r);                                                               \
            double start = now();                                                          \
            for (long k = 0; k < team->n; k++) { ALL(ADD) }                                \
            team->seconds[number][r] = now() - start;                                      \
            ALL(KEEP)                                                                      \
        }                                                                                  \
        return 0;                                                                          \
    }
LOOP(float32, single)
LOOP(float64, twice)

static void *memory_pass(struct team *team, int number) {
    size_t length = team->n;
    float *a = aligned_alloc(4096, length), *b = aligned_alloc(4096, length);
    float *c = aligned_alloc(4096, length);
    size_t elements = length / sizeof *a;
    for (size_t i = 0; i < elements; i++) a[i] = b[i] = c[i] = 1;
    volatile float kept = 0;
    float s = kept;
    for (int r = 0; r < 2 * team->repeats; r++) {
        float total = 0;
        arrive(team, r);
        double start = now();
        if (r < team->repeats)
            for (size_t i = 0; i < elements; i++) a[i] = b[i] + s * c[i];
        else
            for (int array = 0; array < 3; array++) {
                const float *from = array == 0 ? a : array == 1 ? b : c;
                for (size_t i = 0; i < elements; i++) total += from[i];
            }
        team->seconds[number][r] = now() - start;
        kept = total;
    }
    free(a), free(b), free(c);
    return 0;
}

/* Fresh pages each time: how long a trip takes depends on where in memory the line is. */
static struct team *made(const int *cpus, int count, int repeats, long n, double *out) {
    struct team *team = mmap(0, sizeof *team, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    team->cpus = cpus, team->count = count, team->repeats = repeats, team->n = n, team->out = out;
    return team;
}

void trip(const int *cpus, int repeats, long n, double *out) {
    struct team *team = made(cpus, 2, repeats, n, out);
    together(team, bounce);
    munmap(team, sizeof *team);
}

void arithmetic(const int *cpus, int count, int twice_wide, int repeats, long n, double *out) {
    struct team *team = made(cpus, count, repeats, n, out);
    together(team, twice_wide ? float64 : float32);
    for (int r = 0; r < repeats; r++) {
        out[r] = 0;
        for (int i = 0; i < count; i++)
            out[r] += 2.0 * n * SUMS * WIDE / (twice_wide ? 8 : 4) / team->seconds[i][r];
    }
    munmap(team, sizeof *team);
}

void memory(const int *cpus, int count, int repeats, long length, double *out) {
    struct team *team = made(cpus, count, repeats, length, out);
    together(team, memory_pass);
    for (int r = 0; r < 2 * repeats; r++) {
        double longest = 0;
        for (int i = 0; i < count; i++)
            if (team->seconds[i][r] > longest) longest = team->seconds[i][r];
        out[r] = 3.0 * length * count / longest;
    }
    munmap(team, sizeof *team);
}
