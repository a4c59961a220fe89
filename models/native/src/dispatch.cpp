#include <cstdlib>
#include <string>

#include "kernels.h"

namespace nightingale {

#if defined(__x86_64__)
extern const Kernels kernels_avx512, kernels_avx2;
#endif
extern const Kernels kernels_baseline;

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* bound = std::getenv("NATIVE_KERNELS");
    const std::string most = bound ? bound : "";
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (avx512 && most != "avx2" && most != "baseline") return kernels_avx512;
    if (avx2 && most != "baseline") return kernels_avx2;
#endif
    return kernels_baseline;
  }();
  return chosen;
}

}  // namespace nightingale
