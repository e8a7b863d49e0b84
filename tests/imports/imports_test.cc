// Who may include whom. The rooms and their order are those of core/CMakeLists.txt; linking
// enforces most of it, this test also sees headers that need no library.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Prefixes = std::vector<std::string>;

bool StartsWithAny(const std::string& text, const Prefixes& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&text](const std::string& prefix) {
    return text.compare(0, prefix.size(), prefix) == 0;
  });
}

// What the files under a folder may include of this repository; the longest matching folder counts.
// A folder may always include itself.
const std::map<std::string, Prefixes>& Rooms() {
  static const auto* const rooms = new std::map<std::string, Prefixes>{
      {"core/base/", {}},
      {"core/model/", {"core/base/"}},
      {"core/cluster/", {"core/base/"}},
      {"core/profile/", {"core/base/", "core/model/", "core/cluster/"}},
      {"core/plan/", {"core/base/", "core/model/", "core/cluster/", "core/profile/"}},
      {"core/cost/", {"core/base/", "core/model/", "core/cluster/", "core/profile/", "core/plan/"}},
      {"core/feedback/",
       {"core/base/", "core/model/", "core/cluster/", "core/profile/", "core/plan/", "core/cost/"}},
      {"core/search/",
       {"core/base/", "core/model/", "core/cluster/", "core/profile/", "core/plan/", "core/cost/"}},
      {"core/engine/", {"core/base/", "core/model/", "core/cluster/", "core/plan/"}},
      {"server/", {"core/", "hapmoe/v1/", "google/rpc/"}},
      {"server/concurrency/", {"core/base/"}},
      {"server/embedded/", {}},
      {"client/", {"hapmoe/v1/", "google/rpc/"}},
      {"tests/core/", {"core/", "server/concurrency/"}},
      {"tests/client/", {"client/", "hapmoe/v1/", "google/rpc/"}},
  };
  return *rooms;
}

// Folders of this repository, and of the code that is generated from its protos.
const Prefixes& Ours() {
  static const auto* const ours =
      new Prefixes{"core/", "server/", "client/", "proto/", "tests/", "hapmoe/v1/", "google/rpc/"};
  return *ours;
}

// What the core must not know of, and what must not make threads in it.
const Prefixes& ForbiddenInCore() {
  static const auto* const forbidden =
      new Prefixes{"grpc/", "grpcpp/", "google/protobuf/", "prometheus/", "yaml-cpp/", "nlohmann/",
                   "thread", "future", "pthread.h",
                   // ThreadSanitizer cannot see into Debian's; core/base/mutex.h.
                   "absl/synchronization/"};
  return *forbidden;
}

// The includes of `content`, the text of the file `path`, that are not allowed, each with the
// reason.
std::vector<std::string> ForbiddenIncludes(const std::string& path, const std::string& content) {
  const std::pair<const std::string, Prefixes>* room = nullptr;
  for (const auto& candidate : Rooms()) {
    if (path.compare(0, candidate.first.size(), candidate.first) != 0) continue;
    if (room == nullptr || candidate.first.size() > room->first.size()) room = &candidate;
  }
  const bool core = path.compare(0, 5, "core/") == 0;
  std::vector<std::string> faults;
  if (core && room == nullptr) faults.push_back(path + " is in no room of core");

  static const std::regex* const kInclude =
      new std::regex(R"(^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">])", std::regex::multiline);
  for (std::sregex_iterator it(content.begin(), content.end(), *kInclude), end; it != end; ++it) {
    const bool quoted = (*it)[1] == "\"";
    const std::string include = (*it)[2];
    const std::string what = path + " includes " + include;
    if (quoted && (include.find('/') == std::string::npos || include.front() == '.')) {
      faults.push_back(what + ": write the path from the root");
    } else if (core && StartsWithAny(include, ForbiddenInCore())) {
      faults.push_back(what + ": not in the core");
    } else if (room != nullptr && StartsWithAny(include, Ours()) &&
               !StartsWithAny(include, {room->first}) && !StartsWithAny(include, room->second)) {
      faults.push_back(what + ": not from " + room->first);
    }
  }
  return faults;
}

// Who may ask what time of day it is. That clock is set, forwards and back; whatever counts time
// down asks the steady one.
const std::map<std::string, std::string>& AsksForTimeOfDay() {
  static const auto* const files = new std::map<std::string, std::string>{
      {"server/log/log.cc", "when a line was written"},
      {"server/feedback/feedback_store.h", "when a report was stored"},
      {"server/security/credentials.cc", "whether certificates hold now"},
      {"server/rpc/call_support.cc", "gRPC's deadlines, turned into steady time at once"},
      {"server/server.cc", "gRPC's shutdown, which does the same"},
      {"client/connection.cc", "gRPC's deadlines"},
  };
  return *files;
}

// Whether `content`, the text of a file, asks for the time of day.
bool AsksTimeOfDay(const std::string& content) {
  static const std::regex* const kAsks = new std::regex(
      R"(system_clock::now|absl::Now\b|absl::GetCurrentTimeNanos|CLOCK_REALTIME|gettimeofday)"
      R"(|\btime\((nullptr|NULL|0|&\w+)\)|high_resolution_clock)");
  return std::regex_search(content, *kAsks);
}

TEST(ImportsTest, FindsForbiddenIncludes) {
  EXPECT_THAT(ForbiddenIncludes("core/model/a.h", "#include \"core/cost/b.h\"\n"),
              ElementsAre("core/model/a.h includes core/cost/b.h: not from core/model/"));
  EXPECT_THAT(ForbiddenIncludes("core/engine/a.cc", "\n  # include \"core/search/b.h\"\n"),
              ElementsAre("core/engine/a.cc includes core/search/b.h: not from core/engine/"));
  EXPECT_THAT(ForbiddenIncludes("core/engine/a.cc", "#include \"core/profile/b.h\"\n"),
              ElementsAre("core/engine/a.cc includes core/profile/b.h: not from core/engine/"));
  EXPECT_THAT(ForbiddenIncludes("core/cost/a.cc", "#include <thread>\n"),
              ElementsAre("core/cost/a.cc includes thread: not in the core"));
  EXPECT_THAT(ForbiddenIncludes("core/cost/a.cc", "#include \"hapmoe/v1/plan.pb.h\"\n"),
              ElementsAre("core/cost/a.cc includes hapmoe/v1/plan.pb.h: not from core/cost/"));
  EXPECT_THAT(ForbiddenIncludes("core/plan/a.cc", "#include \"google/protobuf/message.h\"\n"),
              ElementsAre("core/plan/a.cc includes google/protobuf/message.h: not in the core"));
  EXPECT_THAT(ForbiddenIncludes("client/a.cc", "#include \"core/base/violation.h\"\n"),
              ElementsAre("client/a.cc includes core/base/violation.h: not from client/"));
  EXPECT_THAT(ForbiddenIncludes("client/a.cc", "#include \"server/b.h\"\n"),
              ElementsAre("client/a.cc includes server/b.h: not from client/"));
  EXPECT_THAT(ForbiddenIncludes("server/concurrency/a.h", "#include \"hapmoe/v1/plan.pb.h\"\n"),
              ElementsAre("server/concurrency/a.h includes hapmoe/v1/plan.pb.h: not from "
                          "server/concurrency/"));
  EXPECT_THAT(ForbiddenIncludes("core/base/a.h", "#include \"b.h\"\n"),
              ElementsAre("core/base/a.h includes b.h: write the path from the root"));
  EXPECT_THAT(ForbiddenIncludes("core/new/a.h", ""),
              ElementsAre("core/new/a.h is in no room of core"));
}

TEST(ImportsTest, AllowsWhatTheHouseAllows) {
  EXPECT_THAT(ForbiddenIncludes("core/search/a.cc",
                                "#include \"core/search/a.h\"\n#include <vector>\n"
                                "#include \"absl/strings/str_cat.h\"\n#include \"core/cost/b.h\"\n"
                                "// #include \"server/c.h\"\n"),
              IsEmpty());
  EXPECT_THAT(ForbiddenIncludes("server/a.cc",
                                "#include \"core/search/a.h\"\n#include \"hapmoe/v1/plan.pb.h\"\n"
                                "#include \"server/concurrency/b.h\"\n#include <thread>\n"),
              IsEmpty());
}

// Every file of ours under some folders: its path from the root, and its text.
std::map<std::string, std::string> Sources(const std::vector<const char*>& folders) {
  const std::filesystem::path root = HAPMOE_SOURCE_DIR;
  std::map<std::string, std::string> sources;
  for (const char* const folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc" && extension != ".inc") continue;
      std::ifstream stream(entry.path());
      sources[std::filesystem::relative(entry.path(), root).generic_string()] =
          std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    }
  }
  return sources;
}

TEST(ImportsTest, TreeHasNoForbiddenInclude) {
  std::vector<std::string> faults;
  const auto sources = Sources({"core", "server", "client", "tests"});
  for (const auto& [path, content] : sources) {
    for (std::string& fault : ForbiddenIncludes(path, content)) faults.push_back(std::move(fault));
  }
  EXPECT_GT(sources.size(), 20u);
  EXPECT_THAT(faults, IsEmpty());
}

TEST(TimeOfDay, IsFound) {
  for (const char* const text :
       {"std::chrono::system_clock::now()", "absl::Now()", "clock = absl::Now;", "time(nullptr)",
        "clock_gettime(CLOCK_REALTIME, &now)", "gettimeofday(&now, nullptr)"}) {
    EXPECT_TRUE(AsksTimeOfDay(text)) << text;
  }
  for (const char* const text :
       {"std::chrono::steady_clock::now()", "system_clock::time_point::max()", "prediction.time()",
        "clock_gettime(CLOCK_MONOTONIC, &now)", "NotNow()"}) {
    EXPECT_FALSE(AsksTimeOfDay(text)) << text;
  }
}

TEST(TimeOfDay, IsAskedForOnlyByWhoNeedsIt) {
  std::vector<std::string> asking;
  std::vector<std::string> allowed;
  for (const auto& [path, why] : AsksForTimeOfDay()) allowed.push_back(path);
  for (const auto& [path, content] : Sources({"core", "server", "client"})) {
    if (AsksTimeOfDay(content)) asking.push_back(path);
  }
  EXPECT_EQ(asking, allowed);
}

}  // namespace
}  // namespace hapmoe
