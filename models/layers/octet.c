/* Products with weights of 8 bits, in the place of the BLAS call that the array library makes with the same weights.

   A row w of a registered matrix has a copy of 8 bits, w ~ s q, and each input row is rounded to 8 bits, x ~ t p, as it
   comes: x.w ~ s t p.q. A row of the result does not depend on the other rows of the call. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST_MATRICES = 4096, ROWS_AT_ONCE = 32 };

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
long nightingale_octet_register(const float *weight, const int8_t *copy, const float *scale, const int32_t *sums, long n,
                                long k) {
    matrix *m = place(weight);
    if (!m->weight) {
        if (held >= MOST_MATRICES / 2) return 0;
        ++held;
    }
    *m = (matrix){weight, copy, scale, sums, n, k};
    return 1;
}

/* Forget `weight`: its memory may become another array's. The slot stays taken, for those found behind it. */
void nightingale_octet_forget(const float *weight) {
    matrix *m = place(weight);
    if (m->weight) m->n = m->k = 0;
}

static int32_t dot(const uint8_t *restrict a, const int8_t *restrict b, long k) {
    int32_t total = 0;
    for (long i = 0; i < k; ++i) total += a[i] * b[i];
    return total;
}

static float coarsen(const float *restrict x, uint8_t *restrict p, long k) {
    float most = 0;
    for (long i = 0; i < k; ++i) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float step = (most > 1e-30f ? most : 1e-30f) / 127, inverse = 1 / step;
    for (long i = 0; i < k; ++i) p[i] = (uint8_t)(int)(rintf(x[i] * inverse) + 128);
    return step;
}

/* c [m, n] = alpha x [m, k] weight^T + beta c, if `weight` is registered with these n and k; otherwise returns 0. */
int nightingale_octet_product(int m, int n, int k, float alpha, const float *x, int ldx, const float *weight, float beta,
                              float *c, int ldc) {
    if (!held) return 0;
    const matrix *w = place(weight);
    if (!w->weight || w->n != n || w->k != k) return 0;
    uint8_t *coarse = malloc((size_t)ROWS_AT_ONCE * k);
    if (!coarse) return 0;
    float step[ROWS_AT_ONCE];
    for (long first = 0; first < m; first += ROWS_AT_ONCE) {
        const long rows = m - first < ROWS_AT_ONCE ? m - first : ROWS_AT_ONCE;
        for (long i = 0; i < rows; ++i) step[i] = coarsen(x + (first + i) * ldx, coarse + i * k, k);
        for (long r = 0; r < n; ++r)
            for (long i = 0; i < rows; ++i) {
                const int32_t product = dot(coarse + i * k, w->copy + r * w->k, k) - 128 * w->sums[r];
                float *out = c + (first + i) * ldc + r;
                const float y = alpha * (w->scale[r] * step[i] * product);
                *out = beta == 0 ? y : y + beta * *out;
            }
    }
    free(coarse);
    return 1;
}
