// hapmoed: plans training jobs over gRPC.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/log/log.h"
#include "server/server.h"
#include "server/storage/open_storage.h"
#include "server/watchdog.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50051",
          "Address that calls are answered on, HOST:PORT or unix:PATH. Port 0 takes a free one.");
ABSL_FLAG(std::string, metrics_listen, "127.0.0.1:9464",
          "Address that Prometheus metrics are served on, HOST:PORT. Empty: nowhere.");
ABSL_FLAG(
    std::string, store, "",
    "Where profiles and reports that callers put are kept: sqlite:PATH, "
    "postgresql://USER@HOST/DATABASE for several servers together, or memory: until the server "
    "ends. Empty: sqlite:STATE_DIR/hapmoe.db, or memory: without --state_dir. A password is "
    "better given by PGPASSWORD or PGPASSFILE.");
ABSL_FLAG(std::string, state_dir, "",
          "Directory of what the server keeps. Files that earlier versions left there are imported "
          "once.");
ABSL_FLAG(
    std::string, profiles, "",
    "Directory of profile files, which take precedence over built-in profiles. It is watched: "
    "files that change are read again, a bad one leaves its old profile in force.");
ABSL_FLAG(absl::Duration, profiles_period, absl::Seconds(1),
          "How often --profiles is looked at; files that change are read once they stay the same "
          "for as long.");
ABSL_FLAG(int, search_threads, 0, "Threads that search. 0: one for each processor.");
ABSL_FLAG(absl::Duration, max_time_budget, absl::Seconds(30), "Longest search.");
ABSL_FLAG(int, queue_size, 64, "Searches that may wait for a thread; more are refused at once.");
ABSL_FLAG(int64_t, max_search_memory, int64_t{1} << 30,
          "Bytes that all searches may have together. One that needs more ends with the best plan "
          "that it has, or is refused.");
ABSL_FLAG(int, max_message_bytes, 4 << 20, "Largest request.");
ABSL_FLAG(int64_t, max_request_memory, 256 << 20,
          "Bytes that requests which are not answered yet may have together; more are refused at "
          "once.");
ABSL_FLAG(
    absl::Duration, max_connection_age, absl::Minutes(30),
    "After which callers are asked to connect anew, so that they find new replicas. 0: never.");
ABSL_FLAG(int64_t, plan_cache_bytes, 64 << 20,
          "Memory for answers that are kept for equal requests. 0: none is kept.");
ABSL_FLAG(bool, warm_up, true,
          "Plan small jobs before the first call, so that it takes hardly longer than later ones.");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate and those that lead to its issuer. Empty: no TLS.");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file of the issuers of certificates that clients must show. Empty: they show none.");
ABSL_FLAG(std::vector<std::string>, writers, {},
          "Clients that may change profiles and reports, by names of their certificates. Empty: "
          "all.");
ABSL_FLAG(absl::Duration, drain_grace, absl::Seconds(10),
          "After SIGTERM, how long searches in flight may go on before they answer with what they "
          "have.");

namespace {

using hapmoe::server::LogLine;
using hapmoe::server::Severity;

// Beyond --drain_grace: searches that are cut short answer within 2.5 s. What takes longer does not
// end.
constexpr absl::Duration kDrainLimit = absl::Seconds(3);
constexpr absl::Duration kLongestGrace = absl::Hours(24);

// Faults of values that ServerOptions cannot hold; empty when there are none.
std::string FlagFault() {
  if (absl::GetFlag(FLAGS_queue_size) < 0) return "--queue_size must be at least 0";
  if (absl::GetFlag(FLAGS_plan_cache_bytes) < 0) return "--plan_cache_bytes must be at least 0";
  for (const auto& [name, value] :
       {std::pair{"drain_grace", absl::GetFlag(FLAGS_drain_grace)},
        {"max_connection_age", absl::GetFlag(FLAGS_max_connection_age)}}) {
    if (value < absl::ZeroDuration() || value > kLongestGrace) {
      return absl::StrCat("--", name, " must be from 0 to 24h, not ", absl::FormatDuration(value));
    }
  }
  return "";
}

hapmoe::server::ServerOptions OptionsFromFlags() {
  hapmoe::server::ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.store = absl::GetFlag(FLAGS_store);
  options.state_dir = absl::GetFlag(FLAGS_state_dir);
  options.profiles_dir = absl::GetFlag(FLAGS_profiles);
  options.profiles_period = absl::ToChronoMilliseconds(absl::GetFlag(FLAGS_profiles_period));
  options.search_threads = absl::GetFlag(FLAGS_search_threads);
  if (options.search_threads == 0) {
    options.search_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  options.max_time_budget = absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_max_time_budget));
  options.queue_size = static_cast<size_t>(absl::GetFlag(FLAGS_queue_size));
  options.plan_cache_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_plan_cache_bytes));
  options.max_request_memory =
      static_cast<size_t>(std::max<int64_t>(0, absl::GetFlag(FLAGS_max_request_memory)));
  options.max_search_memory = absl::GetFlag(FLAGS_max_search_memory);
  options.max_message_bytes =
      static_cast<size_t>(std::max(0, absl::GetFlag(FLAGS_max_message_bytes)));
  options.max_connection_age = absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_max_connection_age));
  options.warm_up = absl::GetFlag(FLAGS_warm_up);
  options.tls = {absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key),
                 absl::GetFlag(FLAGS_tls_client_ca)};
  options.writers = absl::GetFlag(FLAGS_writers);
  return options;
}

void LogOptions(const hapmoe::server::ServerOptions& options) {
  LogLine(Severity::kInfo, "starting")
      .Add("version", hapmoe::server::kVersion)
      .Add("commit", hapmoe::server::kCommit)
      .Add("listen", options.listen)
      .Add("metrics_listen", options.metrics_listen)
      .Add("store", hapmoe::server::DescribeStorage(options.store, options.state_dir))
      .Add("state_dir", options.state_dir)
      .Add("profiles", options.profiles_dir)
      .Add("profiles_period", absl::FormatDuration(absl::GetFlag(FLAGS_profiles_period)))
      .Add("search_threads", options.search_threads)
      .Add("max_time_budget", absl::FormatDuration(absl::GetFlag(FLAGS_max_time_budget)))
      .Add("queue_size", static_cast<int64_t>(options.queue_size))
      .Add("max_search_memory", options.max_search_memory)
      .Add("max_message_bytes", static_cast<int64_t>(options.max_message_bytes))
      .Add("max_request_memory", static_cast<int64_t>(options.max_request_memory))
      .Add("max_connection_age", absl::FormatDuration(absl::GetFlag(FLAGS_max_connection_age)))
      .Add("plan_cache_bytes", static_cast<int64_t>(options.plan_cache_bytes))
      .Add("warm_up", options.warm_up)
      .Add("tls_cert", options.tls.certificate)
      .Add("tls_key", options.tls.key)
      .Add("tls_client_ca", options.tls.client_ca)
      .Add("writers", absl::StrJoin(options.writers, ","))
      .Add("drain_grace", absl::FormatDuration(absl::GetFlag(FLAGS_drain_grace)));
}

bool IsLocal(const std::string& address) {
  for (const char* local : {"unix:", "127.", "localhost:", "[::1]:"}) {
    if (absl::StartsWith(address, local)) return true;
  }
  return false;
}

void LogServing(const hapmoe::server::Server& server,
                const hapmoe::server::ServerOptions& options) {
  if (!options.tls.enabled() && !IsLocal(options.listen)) {
    LogLine(Severity::kWarning, "unprotected")
        .Add("message", "Whoever reaches this address may call, in plain text; see --tls_cert.");
  }
  LogLine(Severity::kInfo, "serving")
      .Add("port", server.port())
      .Add("metrics_port", server.metrics_port())
      .Add("profiles", static_cast<int64_t>(server.profiles()));
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Plans training jobs over gRPC. See README.md.");
  absl::FlagsUsageConfig usage;
  usage.version_string = [] {
    return absl::StrCat("hapmoed ", hapmoe::server::kVersion, " (", hapmoe::server::kCommit, ")\n");
  };
  // Flags of this file alone; Abseil would look for one that is called like the program.
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "server/main.cc");
  };
  absl::SetFlagsUsageConfig(usage);
  if (const std::vector<char*> rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    std::fprintf(stderr, "hapmoed: unexpected argument: %s\n", rest[1]);
    return 2;
  }

  if (const std::string fault = FlagFault(); !fault.empty()) {
    std::fprintf(stderr, "hapmoed: %s\n", fault.c_str());
    return 2;
  }

  // glibc gives threads eight arenas a processor, and what one has freed no other uses: within an
  // hour of mixed calls three quarters of the heap were free memory. As many as can be busy do.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));

  // Blocked before the first thread is made, so that only sigwait sees them.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is a failed write, not the end.

  const hapmoe::server::ServerOptions options = OptionsFromFlags();
  LogOptions(options);
  auto server =
      hapmoe::server::Server::Start(options, std::make_unique<hapmoe::server::SearchSolver>());
  if (!server.ok()) {
    LogLine(Severity::kError, "cannot_start").Add("message", server.status().message());
    return 1;
  }
  LogServing(**server, options);

  int received = 0;
  sigwait(&stop, &received);
  LogLine(Severity::kInfo, "draining").Add("signal", received);
  const absl::Duration grace = absl::GetFlag(FLAGS_drain_grace);
  hapmoe::server::EndProcessAfter(absl::ToChronoNanoseconds(grace + kDrainLimit));
  const bool answered = (*server)->Drain(absl::ToChronoNanoseconds(grace));
  LogLine(answered ? Severity::kInfo : Severity::kWarning, "stopped").Add("all_answered", answered);
  return 0;
}
