// A directory with the files of one test.
#ifndef HAPMOE_TESTS_CLIENT_JOB_DIRECTORY_H_
#define HAPMOE_TESTS_CLIENT_JOB_DIRECTORY_H_

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace hapmoe::client {

// Empty at first; removed with all it holds in the end.
class JobDirectory {
 public:
  JobDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "hapmoe_test.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      std::perror(pattern.c_str());
      std::abort();
    }
    path_ = pattern;
  }
  ~JobDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

  // Writes a file, makes the directories above it, and says where it is.
  std::string Write(const std::filesystem::path& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  // A file by its name in this directory, or by its whole path.
  std::string Read(const std::filesystem::path& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::filesystem::path path_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_TESTS_CLIENT_JOB_DIRECTORY_H_
