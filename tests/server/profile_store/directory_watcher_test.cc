#include "server/profile_store/directory_watcher.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/profile_store/json_files.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPeriod{20};

void Write(const std::string& path, const std::string& content) { std::ofstream(path) << content; }

struct Change {
  const char* name;
  std::function<void(const std::string&)> make;  // In the directory; it holds a.json at first.
};

class FilesThatChange : public testing::TestWithParam<Change> {};

TEST_P(FilesThatChange, AreSeen) {
  const TemporaryDirectory directory;
  Write(directory.path() + "/a.json", "{}");
  const std::string before = DirectoryFingerprint(directory.path());
  EXPECT_EQ(DirectoryFingerprint(directory.path()), before);
  GetParam().make(directory.path());
  EXPECT_NE(DirectoryFingerprint(directory.path()), before);
}

INSTANTIATE_TEST_SUITE_P(
    Directory, FilesThatChange,
    testing::Values(Change{"Grows", [](const std::string& d) { Write(d + "/a.json", "{ }"); }},
                    Change{"IsAdded", [](const std::string& d) { Write(d + "/b.json", "{}"); }},
                    Change{"IsRemoved", [](const std::string& d) { fs::remove(d + "/a.json"); }},
                    Change{"IsRenamed",
                           [](const std::string& d) { fs::rename(d + "/a.json", d + "/b.json"); }},
                    // With the same size and the same time as before.
                    Change{"IsReplaced",
                           [](const std::string& d) {
                             const auto time = fs::last_write_time(d + "/a.json");
                             Write(d + "/new", "[]");
                             fs::last_write_time(d + "/new", time);
                             fs::rename(d + "/new", d + "/a.json");
                           }},
                    Change{"DirectoryIsGone", [](const std::string& d) { fs::remove_all(d); }}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(DirectoryFingerprint, OtherFilesDoNotCount) {
  const TemporaryDirectory directory;
  const std::string before = DirectoryFingerprint(directory.path());
  Write(directory.path() + "/notes.txt", "x");
  Write(directory.path() + "/.a.json.swp", "x");
  Write(directory.path() + "/.hidden.json", "x");
  EXPECT_EQ(DirectoryFingerprint(directory.path()), before);
}

// As Kubernetes mounts a ConfigMap: links to files of "..data", itself a link to a directory, which
// is swapped by a rename.
TEST(DirectoryFingerprint, SeesASwapOfAKubernetesConfigMap) {
  const TemporaryDirectory directory;
  const std::string d = directory.path();
  const auto make = [&d](const std::string& name, const std::string& content) {
    fs::create_directory(d + "/" + name);
    Write(d + "/" + name + "/a.json", content);
    fs::last_write_time(d + "/" + name + "/a.json", fs::file_time_type());
  };
  make("..2026_1", "{1}");
  fs::create_symlink("..2026_1", d + "/..data");
  fs::create_symlink("..data/a.json", d + "/a.json");
  const std::string before = DirectoryFingerprint(d);
  make("..2026_2", "{2}");
  EXPECT_EQ(DirectoryFingerprint(d), before);  // Not yet.
  fs::create_symlink("..2026_2", d + "/..data_tmp");
  fs::rename(d + "/..data_tmp", d + "/..data");
  EXPECT_NE(DirectoryFingerprint(d), before);
  EXPECT_EQ(ReadSmallFile(d + "/a.json").value(), "{2}");
}

class DirectoryWatcherTest : public testing::Test {
 protected:
  void Start() {
    watcher_ = std::make_unique<DirectoryWatcher>(
        directory_.path(), DirectoryFingerprint(directory_.path()), kPeriod, [this] { ++calls_; });
  }
  bool Comes(int calls) {
    for (int i = 0; i < 500 && calls_ < calls; ++i) std::this_thread::sleep_for(kPeriod);
    return calls_ >= calls;
  }

  const TemporaryDirectory directory_;
  std::atomic<int> calls_{0};
  std::unique_ptr<DirectoryWatcher> watcher_;
};

TEST_F(DirectoryWatcherTest, CallsOnceAChangeAndNeverWithoutOne) {
  Write(directory_.path() + "/a.json", "{}");
  Start();
  std::this_thread::sleep_for(5 * kPeriod);
  EXPECT_EQ(calls_, 0);
  Write(directory_.path() + "/b.json", "{}");
  EXPECT_TRUE(Comes(1));
  std::this_thread::sleep_for(5 * kPeriod);
  EXPECT_EQ(calls_, 1);
  fs::remove(directory_.path() + "/b.json");  // As it was before the first call.
  EXPECT_TRUE(Comes(2));
}

TEST_F(DirectoryWatcherTest, LeavesAloneWhatIsBeingWritten) {
  Start();
  std::ofstream file(directory_.path() + "/a.json");
  const auto until = steady_clock::now() + 15 * kPeriod;
  auto longest = steady_clock::duration::zero();
  for (auto last = steady_clock::now(); last < until;) {
    file << "more" << std::flush;
    std::this_thread::sleep_for(milliseconds(1));
    longest = std::max(longest, steady_clock::now() - last);
    last = steady_clock::now();
  }
  if (longest < kPeriod / 2) {  // Otherwise this test was held up itself.
    EXPECT_EQ(calls_, 0);
  }
  file.close();
  EXPECT_TRUE(Comes(1));
}

TEST_F(DirectoryWatcherTest, WaitsForADirectoryToComeBack) {
  Start();
  fs::remove_all(directory_.path());
  EXPECT_TRUE(Comes(1));
  fs::create_directory(directory_.path());
  Write(directory_.path() + "/a.json", "{}");
  EXPECT_TRUE(Comes(2));
}

TEST_F(DirectoryWatcherTest, EndsAtOnce) {
  watcher_ = std::make_unique<DirectoryWatcher>(directory_.path(), "", std::chrono::hours(1),
                                                [this] { ++calls_; });
  const auto begin = steady_clock::now();
  watcher_.reset();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace hapmoe::server
