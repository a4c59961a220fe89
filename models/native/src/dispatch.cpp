#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace nightingale {

#if defined(__x86_64__)
extern const Kernels kernels_amx, kernels_vnni, kernels_avx512, kernels_avxvnni, kernels_avx2;
#endif
#if defined(__aarch64__)
extern const Kernels kernels_bf16, kernels_dotprod;
#endif
extern const Kernels kernels_baseline;

namespace {

std::string bound() {
  const char* given = std::getenv("NATIVE_KERNELS");
  return given ? given : "";
}

#if defined(__x86_64__)
// Whether this processor has AMX in bfloat16 and 8 bits, and the system lets this process use its tiles.
bool has_amx() {
#if defined(__linux__)
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool bf16 = d >> 22 & 1, tile = d >> 24 & 1, int8 = d >> 25 & 1;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return bf16 && tile && int8 && !syscall(SYS_arch_prctl, kRequest, kTileData);
#else
  return false;
#endif
}

// Whether this processor has the 8-bit products of AVX-512 for vectors of AVX, too.
bool has_avx_vnni() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

}  // namespace

const Kernels* bfloat16_kernels() {
#if defined(__x86_64__)
  static const bool found = [] {
    const std::string most = bound();
    return &kernels() == &kernels_vnni && (most.empty() || most == "amx") && has_amx();
  }();
  return found ? &kernels_amx : nullptr;
#elif defined(__aarch64__)
  static const bool found = [] {
    const std::string most = bound();
    constexpr unsigned long kMatrices = HWCAP2_BF16 | HWCAP2_I8MM;  // processors have both or neither
    return &kernels() == &kernels_dotprod && (most.empty() || most == "bf16") && (getauxval(AT_HWCAP2) & kMatrices) == kMatrices;
  }();
  return found ? &kernels_bf16 : nullptr;
#else
  return nullptr;
#endif
}

const Kernels& kernels_of(bool bfloat16) {
  if (!bfloat16) return kernels();
  if (!bfloat16_kernels()) throw std::invalid_argument("this processor does not multiply in bfloat16");
  return *bfloat16_kernels();
}

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const std::string most = bound();
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    const bool narrow = most == "avxvnni" || most == "avx2" || most == "baseline";
    if (vnni && !narrow && most != "avx512") return kernels_vnni;
    if (avx512 && !narrow) return kernels_avx512;
    if (avx2 && most != "avx2" && most != "baseline" && has_avx_vnni()) return kernels_avxvnni;
    if (avx2 && most != "baseline") return kernels_avx2;
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP && most != "baseline") return kernels_dotprod;
#endif
    return kernels_baseline;
  }();
  return chosen;
}

}  // namespace nightingale
