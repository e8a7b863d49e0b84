// Runs every input of every corpus once, so that what was found once is not forgotten, and every
// target on the files of further folders.
//
//   fuzz_replay CORPORA [FOLDER...]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fuzz/targets.h"

namespace {

// How many files there are.
int RunAll(const hapmoe::fuzz::Target& target, const std::filesystem::path& folder) {
  int inputs = 0;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
    std::ostringstream text;
    text << std::ifstream(file.path(), std::ios::binary).rdbuf();
    std::printf("%s: %s\n", target.name, file.path().c_str());
    std::fflush(stdout);  // The last line is what failed.
    target.run(text.str());
    ++inputs;
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int empty = 0;
  for (const hapmoe::fuzz::Target& target : hapmoe::fuzz::Targets()) {
    if (RunAll(target, std::filesystem::path(argv[1]) / target.name) == 0) {
      std::printf("%s has no corpus\n", target.name);
      ++empty;
    }
    for (int i = 2; i < argc; ++i) {
      if (RunAll(target, argv[i]) == 0) ++empty;
    }
  }
  return empty > 0 ? 1 : 0;
}
