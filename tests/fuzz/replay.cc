// Runs every input of every corpus once: what was found once is not forgotten.
//
//   fuzz_replay FOLDER [TARGET]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fuzz/targets.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int empty = 0;
  for (const hapmoe::fuzz::Target& target : hapmoe::fuzz::Targets()) {
    if (argc > 2 && std::string(argv[2]) != target.name) continue;
    int inputs = 0;
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / target.name;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
      std::ostringstream text;
      text << std::ifstream(file.path(), std::ios::binary).rdbuf();
      std::printf("%s\n", file.path().c_str());
      std::fflush(stdout);  // The last line is what failed.
      target.run(text.str());
      ++inputs;
    }
    if (inputs == 0) {
      std::printf("%s has no corpus\n", target.name);
      ++empty;
    }
  }
  return empty > 0 ? 1 : 0;
}
