/* Two routines that read copies of 8 bits instead of weights.

   Products replace the BLAS call that the array library makes with the same weights. A row w of a registered matrix has
   a copy of 8 bits, w ~ s q. Each input row is rounded to 8 bits in the call, x ~ t p: x.w ~ s t p.q. A row of the result
   does not depend on the other rows of the call. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MATRICES = 4096, ROWS_AT_ONCE = 32, MOST_INPUTS = 64, MOST_THREADS = 64 };

typedef struct {
    const float *weight; /* [n, k], the key */
    const int8_t *copy;  /* [n, k] */
    const float *scale;  /* [n], s */
    const int32_t *sums; /* [n], the sum of q */
    long n, k;
} matrix;

/* Open addressing. Written while models load, on the one thread that computes; read by the threads of its streams. */
static matrix table[MOST_MATRICES];
static long held;

static matrix *place(const float *weight) {
    uint64_t hash = ((uint64_t)(uintptr_t)weight >> 4) * 0x9E3779B97F4A7C15ull;
    long i = (long)(hash >> 52) % MOST_MATRICES;
    while (table[i].weight && table[i].weight != weight) i = (i + 1) % MOST_MATRICES;
    return &table[i];
}

/* Have products with `weight` [n, k] computed from its copy. Returns 0 if there is no room. */
long nightingale_int8_register(const float *weight, const int8_t *copy, const float *scale, const int32_t *sums, long n,
                                long k) {
    matrix *m = place(weight);
    if (!m->weight) {
        if (held >= MOST_MATRICES / 2) return 0;
        ++held;
    }
    *m = (matrix){weight, copy, scale, sums, n, k};
    return 1;
}

/* Forget `weight`, whose memory another array may get. The slot stays taken, so that later slots can be found. */
void nightingale_int8_forget(const float *weight) {
    matrix *m = place(weight);
    if (m->weight) m->n = m->k = 0;
}

static int32_t dot(const uint8_t *restrict a, const int8_t *restrict b, long k) {
    int32_t total = 0;
    for (long i = 0; i < k; ++i) total += a[i] * b[i];
    return total;
}

/* Inlined into nests of more loops, these lose their vector code (gcc 12). */
#define APART __attribute__((noinline))
APART static int32_t dot_apart(const uint8_t *a, const int8_t *b, long k) { return dot(a, b, k); }

enum { SIDE = 4 };

/* The products of `rows` of a and `wide` of b, each at most SIDE of k numbers, into t [SIDE, SIDE]. A full tile uses each
   number that it reads four times: without, a product took half as long again. */
APART static void dots(const uint8_t *restrict a, const int8_t *restrict b, long k, long rows, long wide,
                 int32_t t[SIDE][SIDE]) {
    if (rows < SIDE || wide < SIDE) {
        for (long i = 0; i < rows; ++i)
            for (long j = 0; j < wide; ++j) t[i][j] = dot_apart(a + i * k, b + j * k, k);
        return;
    }
    const uint8_t *restrict a1 = a + k, *restrict a2 = a + 2 * k, *restrict a3 = a + 3 * k;
    const int8_t *restrict b1 = b + k, *restrict b2 = b + 2 * k, *restrict b3 = b + 3 * k;
    int32_t c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
    int32_t c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
    for (long i = 0; i < k; ++i) {
        c00 += a[i] * b[i], c01 += a[i] * b1[i], c02 += a[i] * b2[i], c03 += a[i] * b3[i];
        c10 += a1[i] * b[i], c11 += a1[i] * b1[i], c12 += a1[i] * b2[i], c13 += a1[i] * b3[i];
        c20 += a2[i] * b[i], c21 += a2[i] * b1[i], c22 += a2[i] * b2[i], c23 += a2[i] * b3[i];
        c30 += a3[i] * b[i], c31 += a3[i] * b1[i], c32 += a3[i] * b2[i], c33 += a3[i] * b3[i];
    }
    const int32_t all[SIDE][SIDE] = {
        {c00, c01, c02, c03}, {c10, c11, c12, c13}, {c20, c21, c22, c23}, {c30, c31, c32, c33}};
    memcpy(t, all, sizeof all);
}

static long least(long a, long b) { return a < b ? a : b; }

/* Rows of weights that are read at a time for so many inputs. With few inputs memory is the bound: one row is faster. */
static long columns(long inputs) { return inputs < 16 ? 1 : SIDE; }

static float coarsen(const float *restrict x, uint8_t *restrict p, long k) {
    float most = 0;
    for (long i = 0; i < k; ++i) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float step = (most > 1e-30f ? most : 1e-30f) / 127, inverse = 1 / step;
    for (long i = 0; i < k; ++i) p[i] = (uint8_t)(int)(rintf(x[i] * inverse) + 128);
    return step;
}

/* The product of weight r with an input of that step. In double precision any two of the three factors multiply exactly:
   the result does not depend on their order, in code for few rows or many. */
static inline float value(const matrix *w, long r, double step, int32_t sum) {
    return (float)(w->scale[r] * step * (sum - 128 * w->sums[r]));
}

/* c [m, n] = alpha x [m, k] weight^T + beta c, if `weight` is registered with these n and k; otherwise returns 0. */
int nightingale_int8_product(int m, int n, int k, float alpha, const float *x, int ldx, const float *weight, float beta,
                              float *c, int ldc) {
    if (!held) return 0;
    const matrix *w = place(weight);
    if (!w->weight || w->n != n || w->k != k) return 0;
    uint8_t *coarse = malloc((size_t)ROWS_AT_ONCE * k);
    if (!coarse) return 0;
    float step[ROWS_AT_ONCE];
    for (long first = 0; first < m; first += ROWS_AT_ONCE) {
        const long rows = least(m - first, ROWS_AT_ONCE);
        for (long i = 0; i < rows; ++i) step[i] = alpha * coarsen(x + (first + i) * ldx, coarse + i * k, k);
        const long side = columns(rows);
        if (side == 1) {
            for (long r = 0; r < n; ++r)
                for (long i = 0; i < rows; ++i) {
                    float *out = c + (first + i) * ldc + r;
                    const float y = value(w, r, step[i], dot(coarse + i * k, w->copy + r * k, k));
                    *out = beta == 0 ? y : y + beta * *out;
                }
            continue;
        }
        for (long r = 0; r < n; r += side)
            for (long i = 0; i < rows; i += SIDE) {
                const long high = least(rows - i, SIDE), wide = least(n - r, side);
                int32_t t[SIDE][SIDE];
                dots(coarse + i * k, w->copy + r * k, k, high, wide, t);
                for (long a = 0; a < high; ++a)
                    for (long b = 0; b < wide; ++b) {
                        float *out = c + (first + i + a) * ldc + r + b;
                        const float y = value(w, r + b, step[i + a], t[a][b]);
                        *out = beta == 0 ? y : y + beta * *out;
                    }
            }
    }
    free(coarse);
    return 1;
}

/* The largest of many inner products, exactly, without reading the whole matrix.

   Each row w of the matrix has a copy of 8 bits, w = s q + e, and so has the input, x = t p + d. By Cauchy and Schwarz
   |x.w - s t p.q| <= |d| |s q| + |x| |e|. A pass over the copies, a quarter of the memory, bounds every product. Those
   that may be the largest are computed in full. Rows of `banned` products are never chosen. */
typedef struct {
    const float *weight;   /* [n, k] */
    const int8_t *copy;    /* [n, k] */
    const float *scale;    /* [n], s */
    const float *length;   /* [n], |s q| */
    const float *error;    /* [n], |e| */
    const int32_t *sums;   /* [n], the sum of q */
    const float *banned;   /* [n], added to the products */
    const float *input;    /* [m, k] */
    const uint8_t *coarse; /* [m, k], p + 128 */
    const float *step;     /* [m], t */
    const float *rest;     /* [m], |d| */
    const float *norm;     /* [m], |x| */
    float *most;           /* [m, n], scratch: upper bound of each product */
    long m, n, k;
} task;

typedef struct {
    task *whole;
    long first, last;
    float floors[MOST_INPUTS]; /* lower bound of each input's largest product */
} share;

/* Bound of an estimate's error, and a little more: the bound itself and the products are in single precision. */
static inline float slack(const task *t, long m, long r) {
    return 1.001f * (t->rest[m] * t->length[r] + t->norm[m] * t->error[r]) + 1e-5f * t->norm[m] * t->length[r];
}

static inline void note(share *part, long m, long r, int32_t sum) {
    const task *t = part->whole;
    const int32_t product = sum - 128 * t->sums[r];
    const float middle = t->scale[r] * t->step[m] * product + t->banned[r];
    const float off = slack(t, m, r), floor = middle - off;
    t->most[m * t->n + r] = middle + off;
    if (floor > part->floors[m]) part->floors[m] = floor;
}

static void *estimate(void *argument) {
    share *part = argument;
    const task *t = part->whole;
    const long side = columns(t->m);
    for (long m = 0; m < t->m; ++m) part->floors[m] = -INFINITY;
    if (side == 1) {
        for (long r = part->first; r < part->last; ++r)
            for (long m = 0; m < t->m; ++m) note(part, m, r, dot(t->coarse + m * t->k, t->copy + r * t->k, t->k));
        return 0;
    }
    for (long r = part->first; r < part->last; r += side)
        for (long m = 0; m < t->m; m += SIDE) {
            const long high = least(t->m - m, SIDE), wide = least(part->last - r, side);
            int32_t tile[SIDE][SIDE];
            dots(t->coarse + m * t->k, t->copy + r * t->k, t->k, high, wide, tile);
            for (long a = 0; a < high; ++a)
                for (long b = 0; b < wide; ++b) note(part, m + a, r + b, tile[a][b]);
        }
    return 0;
}

/* Row of the largest product of each of at most 64 inputs into `best`; of equal ones the first. Returns how many
   products were computed in full. */
long nightingale_int8_argmax(task *t, long threads, int32_t *best) {
    pthread_t handles[MOST_THREADS];
    share shares[MOST_THREADS];
    long full = 0, started = 1;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    for (long i = 0; i < threads; ++i) {
        shares[i].whole = t;
        shares[i].first = t->n * i / threads;
        shares[i].last = t->n * (i + 1) / threads;
    }
    for (; started < threads; ++started)
        if (pthread_create(&handles[started], 0, estimate, &shares[started])) break;
    for (long i = started; i < threads; ++i) estimate(&shares[i]); /* no thread could start */
    estimate(&shares[0]);
    for (long i = 1; i < started; ++i) pthread_join(handles[i], 0);
    for (long m = 0; m < t->m; ++m) {
        float floor = -INFINITY, largest = -INFINITY;
        for (long i = 0; i < threads; ++i)
            if (shares[i].floors[m] > floor) floor = shares[i].floors[m];
        best[m] = 0;
        for (long r = 0; r < t->n; ++r) {
            if (t->most[m * t->n + r] < floor || t->banned[r] == -INFINITY) continue;
            float product = t->banned[r];
            for (long i = 0; i < t->k; ++i) product += t->input[m * t->k + i] * t->weight[r * t->k + i];
            ++full;
            if (product > largest) largest = product, best[m] = (int32_t)r;
        }
    }
    return full;
}
