// The table of kernels of one instruction set. This file is compiled once for each.
#include "kernels.h"

#if defined(__AMX_BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define NIGHTINGALE_BFLOAT16
#endif

#include "attention.h"
#include "convolution.h"
#if defined(NIGHTINGALE_BFLOAT16)
#include "convolution_bfloat16.h"
#endif
#if defined(__AMX_BF16__)
#include "rows_amx.h"
#endif
#include "products_search.h"
#include "recurrent.h"
#include "rows.h"
#include "vocoder.h"

namespace nightingale {

#define NIGHTINGALE_JOIN(isa) kernels_##isa
#define NIGHTINGALE_NAME(isa) NIGHTINGALE_JOIN(isa)
#define NIGHTINGALE_QUOTE(isa) #isa
#define NIGHTINGALE_STRING(isa) NIGHTINGALE_QUOTE(isa)

extern const Kernels NIGHTINGALE_NAME(NIGHTINGALE_ISA);
const Kernels NIGHTINGALE_NAME(NIGHTINGALE_ISA) = {
    .name = NIGHTINGALE_STRING(NIGHTINGALE_ISA),
#if defined(NIGHTINGALE_BFLOAT16)
    .plan = bfloat16_plan,
    .packed_size = bfloat16_packed_size,
    .pack = bfloat16_pack,
    .pieces = pieces,
    .conv = bfloat16_convolve,
#else
    .plan = plan,
    .packed_size = packed_size,
    .pack = pack,
    .pieces = pieces,
    .conv = convolve,
#endif
    .moments = find_moments,
    .recurrence_units = kPair * kLanes,
    .pack_recurrence = pack_recurrence,
    .recur = recur,
    .int8_size = int8::size,
    .int8_pack = int8::pack,
    .int8_row = int8::unpack,
    .int8_measure = int8::measure,
    .int8_coarse = sizeof(int8::Coarse),
    .int8_rows = int8::kLeastRows,
    .int8_pairs = int8::kPairs,
    .int8_round = int8::round_rows,
    .int8_multiply = int8::multiply,
    .int8_measure_rows = int8::measure_rows,
    .int8_screen = int8::screen,
    .int8_choose = int8::choose,
    .prepare = int8::prepare,
    .attend = attend,
    .log_sum_exp = log_sum_exp,
    .excite = excite,
    .analyze = analyze,
    .synthesize = synthesize,
    .normalize = normalize,
    .gelu = gelu_rows,
#if defined(__AMX_BF16__)
    .attend_rows = amx_attend_rows,
#else
    .attend_rows = attend_rows,
#endif
};

}  // namespace nightingale
