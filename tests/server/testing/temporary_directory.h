// A directory of a test's own, so that tests may run beside each other and again.
#ifndef HAPMOE_TESTS_SERVER_TESTING_TEMPORARY_DIRECTORY_H_
#define HAPMOE_TESTS_SERVER_TESTING_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace hapmoe::server {

// Empty at first; removed with all it holds in the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(testing::TempDir() + "hapmoe_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror(path_.c_str());
      std::abort();
    }
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_TEMPORARY_DIRECTORY_H_
