// One target under libFuzzer: HAPMOE_FUZZ_TARGET=cluster_file fuzz CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"

namespace {

const hapmoe::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("HAPMOE_FUZZ_TARGET");
  target = hapmoe::fuzz::FindTarget(name == nullptr ? "" : name);
  if (target != nullptr) return 0;
  std::fprintf(stderr, "HAPMOE_FUZZ_TARGET must be one of:");
  for (const hapmoe::fuzz::Target& one : hapmoe::fuzz::Targets()) {
    std::fprintf(stderr, " %s", one.name);
  }
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
