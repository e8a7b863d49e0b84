// A promise that is kept in every build, unlike assert.
#ifndef HAPMOE_TESTS_FUZZ_EXPECT_H_
#define HAPMOE_TESTS_FUZZ_EXPECT_H_

#include <cstdlib>

namespace hapmoe::fuzz {

inline void Expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace hapmoe::fuzz

#endif  // HAPMOE_TESTS_FUZZ_EXPECT_H_
