// Argument lists of three jobs, and ways to change them, for tests of the engine's rules.
#ifndef HAPMOE_TESTS_CORE_ENGINE_ARGUMENT_LISTS_H_
#define HAPMOE_TESTS_CORE_ENGINE_ARGUMENT_LISTS_H_

#include <string>
#include <vector>

namespace hapmoe::engine {

using Argv = std::vector<std::string>;

// Splits at blanks.
Argv Words(const std::string& text);

// The list with these words added; where an option is repeated, the last one counts.
Argv With(Argv argv, const std::string& words);

// The list without an option and the values that follow it.
Argv Without(const Argv& argv, const std::string& flag);

// Dense: 32 layers, hidden 4096, 32 heads in 8 groups, ffn 14336, sequence 8192, batch 128.
Argv Dense();
// Experts: as Dense with 8 experts of 14336 in every layer, top 2, alltoall.
Argv Experts();
// Multi-latent attention, 61 layers of which the first 3 are dense, 256 experts, 1 MTP layer.
Argv Latent();

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_ARGUMENT_LISTS_H_
