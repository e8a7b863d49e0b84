// A directory with scripts in it, and both ways to read them.
#ifndef HAPMOE_TESTS_CLIENT_SCRIPT_FIXTURE_H_
#define HAPMOE_TESTS_CLIENT_SCRIPT_FIXTURE_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "client/script_capture.h"
#include "client/script_reading/static_reading.h"
#include "client/script_run.h"
#include "gtest/gtest.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {

class ScriptFixture {
 public:
  ScriptFixture() {
    std::filesystem::create_directories(root_ / "job");
    std::filesystem::create_directories(root_ / "outside");
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(root_ / "job");
    request_.script = "job.sh";
  }
  ~ScriptFixture() { std::filesystem::current_path(before_); }

  void Write(const std::filesystem::path& name, const std::string& text) const {
    root_.Write("job" / name, text);
  }

  absl::StatusOr<ScriptRun> ReadStatically(const std::string& script) const {
    Write("job.sh", script);
    return ReadScriptStatically(request_);
  }

  // UNAVAILABLE where no sandbox can be made.
  absl::StatusOr<ScriptRun> RunInSandbox(const std::string& script) const {
    Write("job.sh", script);
    return ScriptCapture(limits_).Run(request_);
  }

  // Whether a sandbox can be made. HAPMOE_REQUIRE_SANDBOX=1 makes it a failure where none can.
  bool HasSandbox() const {
    const absl::StatusOr<ScriptRun> run = RunInSandbox("torchrun t.py\n");
    if (std::getenv("HAPMOE_REQUIRE_SANDBOX") != nullptr) {
      EXPECT_TRUE(run.ok()) << run.status();
    }
    return run.ok();
  }

  JobDirectory root_;
  std::filesystem::path before_;
  ScriptRequest request_;
  ProcessLimits limits_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_TESTS_CLIENT_SCRIPT_FIXTURE_H_
