// Which options a server starts with, and what is said of others.
#include "server/option_bounds.h"

#include <chrono>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;

constexpr size_t kGibibyte = size_t{1} << 30;

struct Case {
  const char* name;
  std::function<void(ServerOptions&)> change;
  const char* refusal;  // Part of it; empty: it is fine.
};

const Case kCases[] = {
    {"Defaults", [](ServerOptions&) {}, ""},
    {"FreePort", [](ServerOptions& o) { o.listen = "localhost:0"; }, ""},
    {"LastPort", [](ServerOptions& o) { o.listen = "[::]:65535"; }, ""},
    {"PortTooHigh", [](ServerOptions& o) { o.listen = "127.0.0.1:65536"; },
     "--listen must be HOST:PORT, with a port of 65535 at most, or unix:PATH, not 127.0.0.1:65536"},
    {"PortNoNumber", [](ServerOptions& o) { o.listen = "127.0.0.1:grpc"; }, "--listen"},
    {"PortMissing", [](ServerOptions& o) { o.listen = "127.0.0.1:"; }, "--listen"},
    {"PortSigned", [](ServerOptions& o) { o.listen = "127.0.0.1:+80"; }, "--listen"},
    {"HostMissing", [](ServerOptions& o) { o.listen = ":50051"; }, "--listen"},
    {"NoAddress", [](ServerOptions& o) { o.listen = "planner"; }, "--listen"},
    {"Empty", [](ServerOptions& o) { o.listen = ""; }, "--listen"},
    {"Path", [](ServerOptions& o) { o.listen = "unix:/run/hapmoe"; }, ""},
    {"PathMissing", [](ServerOptions& o) { o.listen = "unix:"; }, "--listen"},
    {"NoMetrics", [](ServerOptions& o) { o.metrics_listen = ""; }, ""},
    {"MetricsPortTooHigh", [](ServerOptions& o) { o.metrics_listen = "0.0.0.0:70000"; },
     "--metrics_listen"},
    {"MetricsOnPath", [](ServerOptions& o) { o.metrics_listen = "unix:/run/metrics"; },
     "--metrics_listen"},
    {"MostThreads", [](ServerOptions& o) { o.search_threads = 4096; }, ""},
    {"TooManyThreads", [](ServerOptions& o) { o.search_threads = 4097; },
     "--search_threads must be at most 4096, not 4097"},
    {"NoQueue", [](ServerOptions& o) { o.queue_size = 0; }, ""},
    {"QueueTooLong", [](ServerOptions& o) { o.queue_size = 1'000'001; },
     "--queue_size must be at most 1000000"},
    {"LargestMessage",
     [](ServerOptions& o) { o.max_message_bytes = o.max_request_memory = kGibibyte; }, ""},
    {"MessageTooLarge", [](ServerOptions& o) { o.max_message_bytes = kGibibyte + 1; },
     "--max_message_bytes"},
    {"LeastSearchMemory", [](ServerOptions& o) { o.max_search_memory = 16 << 20; }, ""},
    {"TooLittleSearchMemory", [](ServerOptions& o) { o.max_search_memory = (16 << 20) - 1; },
     "--max_search_memory must be from 16777216 to 1125899906842624, not 16777215"},
    {"NegativeSearchMemory", [](ServerOptions& o) { o.max_search_memory = -1; },
     "--max_search_memory"},
    {"OneRequestAtATime", [](ServerOptions& o) { o.max_request_memory = o.max_message_bytes; }, ""},
    {"NoRequestFits", [](ServerOptions& o) { o.max_request_memory = o.max_message_bytes - 1; },
     "--max_request_memory must be at least --max_message_bytes, not 4194303"},
    {"LongestSearch", [](ServerOptions& o) { o.max_time_budget = std::chrono::hours(24); }, ""},
    {"SearchTooLong",
     [](ServerOptions& o) {
       o.max_time_budget = std::chrono::hours(24) + std::chrono::nanoseconds(1);
     },
     "--max_time_budget must be at most 24h"},
};

TEST(OptionBoundsTest, SaysWhatIsWrong) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    ServerOptions options;
    one.change(options);
    const absl::Status status = CheckOptionBounds(options);
    const std::string refusal = one.refusal;
    EXPECT_EQ(status.code(),
              refusal.empty() ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal));
  }
}

}  // namespace
}  // namespace hapmoe::server
