/* The largest of many inner products, exactly, without reading the whole matrix.

   Each row w of the matrix has a copy of 8 bits, w = s q + e, and so has the input, x = t p + d. By Cauchy and Schwarz
   |x.w - s t p.q| <= |d| |s q| + |x| |e|, so a pass over the copies, a quarter of the memory, bounds every product; those
   that may be the largest are computed in full. Rows of `banned` products are never chosen. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>

enum { MOST_INPUTS = 64, MOST_THREADS = 64 };

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
    float *middle;         /* [m, n], scratch: the estimates */
    long m, n, k;
} task;

typedef struct {
    task *whole;
    long first, last;
    float floors[MOST_INPUTS]; /* what each input's largest is at least */
} share;

/* How far off an estimate may be: a little more than the bound, which is computed in single precision itself, as are
   the products. */
static inline float slack(const task *t, long m, long r) {
    return 1.001f * (t->rest[m] * t->length[r] + t->norm[m] * t->error[r]) + 1e-5f * t->norm[m] * t->length[r];
}

static int32_t dot(const uint8_t *restrict a, const int8_t *restrict b, long k) {
    int32_t total = 0;
    for (long i = 0; i < k; ++i) total += a[i] * b[i];
    return total;
}

static void *estimate(void *argument) {
    share *part = argument;
    const task *t = part->whole;
    for (long m = 0; m < t->m; ++m) part->floors[m] = -INFINITY;
    for (long r = part->first; r < part->last; ++r)
        for (long m = 0; m < t->m; ++m) {
            const int32_t product = dot(t->coarse + m * t->k, t->copy + r * t->k, t->k) - 128 * t->sums[r];
            const float middle = t->scale[r] * t->step[m] * product + t->banned[r];
            const float least = middle - slack(t, m, r);
            t->middle[m * t->n + r] = middle;
            if (least > part->floors[m]) part->floors[m] = least;
        }
    return 0;
}

/* Row of the largest product of each of at most 64 inputs into `best`; of equal ones the first. Returns how many
   products were computed in full. */
long nightingale_screen(task *t, long threads, int32_t *best) {
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
    for (long i = started; i < threads; ++i) estimate(&shares[i]); /* there was no thread to be had */
    estimate(&shares[0]);
    for (long i = 1; i < started; ++i) pthread_join(handles[i], 0);
    for (long m = 0; m < t->m; ++m) {
        float floor = -INFINITY, largest = -INFINITY;
        for (long i = 0; i < threads; ++i)
            if (shares[i].floors[m] > floor) floor = shares[i].floors[m];
        best[m] = 0;
        for (long r = 0; r < t->n; ++r) {
            if (t->middle[m * t->n + r] + slack(t, m, r) < floor || t->banned[r] == -INFINITY) continue;
            float product = t->banned[r];
            for (long i = 0; i < t->k; ++i) product += t->input[m * t->k + i] * t->weight[r * t->k + i];
            ++full;
            if (product > largest) largest = product, best[m] = (int32_t)r;
        }
    }
    return full;
}
