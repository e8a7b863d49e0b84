// Calls a running hapmoed as fast as it answers, or at a given rate, and says how that went: times,
// and the processor time of the server for one call. See README.md beside this.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "tests/bench/load/latencies.h"
#include "tests/bench/load/process_figures.h"
#include "tests/server/testing/requests.h"

ABSL_FLAG(std::string, server, "127.0.0.1:50051", "Address of the server.");
ABSL_FLAG(std::string, call, "plan",
          "What is called: \"plan\", equal requests, the first of which is not counted; \"info\", "
          "GetServerInfo, the emptiest call that there is.");
ABSL_FLAG(double, rate, 0,
          "Calls a second, whether the server keeps up or not. 0: each of --inflight is followed "
          "by another when it is answered.");
ABSL_FLAG(int, inflight, 32, "Calls that are under way at a time, without --rate.");
ABSL_FLAG(int, connections, 2, "Connections to the server.");
ABSL_FLAG(double, seconds, 5, "How long.");
ABSL_FLAG(int, pid, 0, "Process of the server, for its processor time. 0: not told.");
ABSL_FLAG(double, most_server_us, 0,
          "Fails if the server takes more microseconds of processor time for a call; needs --pid. "
          "0: no limit.");
ABSL_FLAG(bool, request_ids, false, "Whether every call of Plan has an id of its own.");
ABSL_FLAG(double, deadline_seconds, 30, "Deadline of a call.");

namespace hapmoe::bench {
namespace {

using Clock = std::chrono::steady_clock;

// What all calls share. Thread safe.
class Load {
 public:
  explicit Load(std::vector<std::unique_ptr<v1::PlannerService::Stub>> stubs)
      : stubs_(std::move(stubs)),
        info_(absl::GetFlag(FLAGS_call) == "info"),
        ids_(absl::GetFlag(FLAGS_request_ids)),
        deadline_(std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(absl::GetFlag(FLAGS_deadline_seconds)))),
        request_(server::SmallPlanRequest()) {
    request_.clear_request_id();
  }

  // One call that is waited for; the size of its answer.
  grpc::Status CallOnce(size_t& answer_bytes) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
    if (info_) {
      v1::GetServerInfoResponse response;
      const grpc::Status status = stubs_.front()->GetServerInfo(&context, {}, &response);
      answer_bytes = response.ByteSizeLong();
      return status;
    }
    v1::PlanResponse response;
    const grpc::Status status = stubs_.front()->Plan(&context, request_, &response);
    answer_bytes = response.ByteSizeLong();
    return status;
  }

  void Closed(int inflight, Clock::time_point end) {
    end_ = end;
    for (int i = 0; i < inflight; ++i) Start(Clock::now(), /*chained=*/true);
    Wait();
  }

  // A call's time counts from when it was to start: a slow server is not let off.
  void Open(double rate, Clock::time_point end) {
    const auto gap =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
    for (auto next = Clock::now(); next < end; next += gap) {
      std::this_thread::sleep_until(next);
      Start(next, /*chained=*/false);
    }
    Wait();
  }

  const Latencies& latencies() const { return latencies_; }
  int64_t failed() const { return failed_; }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::PlanRequest request;
    v1::PlanResponse planned;
    v1::GetServerInfoRequest info_request;
    v1::GetServerInfoResponse info;
  };

  void Start(Clock::time_point due, bool chained) {
    ++under_way_;
    const uint64_t number = ++started_;
    auto* const call = new Call();
    call->context.set_deadline(std::chrono::system_clock::now() + deadline_);
    auto done = [this, call, due, chained](grpc::Status status) {
      const Clock::time_point now = Clock::now();
      latencies_.Add(now - due);
      if (!status.ok()) ++failed_;
      delete call;
      if (chained && now < end_) Start(now, /*chained=*/true);
      if (--under_way_ == 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        idle_.notify_all();
      }
    };
    v1::PlannerService::Stub& stub = *stubs_[number % stubs_.size()];
    if (info_) {
      stub.async()->GetServerInfo(&call->context, &call->info_request, &call->info, done);
      return;
    }
    const v1::PlanRequest* request = &request_;
    if (ids_) {
      call->request = request_;
      call->request.set_request_id(absl::StrCat("load-", getpid(), "-", number));
      request = &call->request;
    }
    stub.async()->Plan(&call->context, request, &call->planned, done);
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return under_way_ == 0; });
  }

  const std::vector<std::unique_ptr<v1::PlannerService::Stub>> stubs_;
  const bool info_;
  const bool ids_;
  const std::chrono::nanoseconds deadline_;
  v1::PlanRequest request_;
  Clock::time_point end_;
  Latencies latencies_;
  std::atomic<int64_t> failed_{0};
  std::atomic<int64_t> under_way_{0};
  std::atomic<uint64_t> started_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
};

int Run() {
  std::vector<std::unique_ptr<v1::PlannerService::Stub>> stubs;
  for (int i = 0; i < std::max(1, absl::GetFlag(FLAGS_connections)); ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
    stubs.push_back(v1::PlannerService::NewStub(grpc::CreateCustomChannel(
        absl::GetFlag(FLAGS_server), grpc::InsecureChannelCredentials(), arguments)));
  }
  Load load(std::move(stubs));
  size_t answer_bytes = 0;
  const grpc::Status first = load.CallOnce(answer_bytes);
  if (!first.ok()) {
    std::fprintf(stderr, "load: %s\n", first.error_message().c_str());
    return 1;
  }
  const int pid = absl::GetFlag(FLAGS_pid);
  const double server_before = pid == 0 ? 0 : FiguresOf(pid).cpu_seconds;
  const double client_before = FiguresOf(0).cpu_seconds;
  const Clock::time_point start = Clock::now();
  const Clock::time_point end =
      start + std::chrono::duration_cast<Clock::duration>(
                  std::chrono::duration<double>(absl::GetFlag(FLAGS_seconds)));
  const double rate = absl::GetFlag(FLAGS_rate);
  if (rate > 0) {
    load.Open(rate, end);
  } else {
    load.Closed(std::max(1, absl::GetFlag(FLAGS_inflight)), end);
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  const auto calls = static_cast<double>(load.latencies().count());
  std::printf("call %s, answer %zu bytes\n", absl::GetFlag(FLAGS_call).c_str(), answer_bytes);
  std::printf("calls %.0f, failed %lld, %.0f a second\n", calls,
              static_cast<long long>(load.failed()), calls / took);
  std::printf("latency p50 %.3f ms, p99 %.3f ms, most %.3f ms\n",
              load.latencies().QuantileSeconds(0.5) * 1e3,
              load.latencies().QuantileSeconds(0.99) * 1e3, load.latencies().MostSeconds() * 1e3);
  std::printf("client %.1f us of processor time a call\n",
              (FiguresOf(0).cpu_seconds - client_before) / calls * 1e6);
  if (pid != 0) {
    const double server_us = (FiguresOf(pid).cpu_seconds - server_before) / calls * 1e6;
    const double most_us = absl::GetFlag(FLAGS_most_server_us);
    std::printf("server %.1f us of processor time a call\n", server_us);
    if (most_us > 0 && server_us > most_us) {
      std::fprintf(stderr, "load: more than %.1f us\n", most_us);
      return 1;
    }
  }
  return load.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hapmoe::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Calls a running hapmoed. See tests/bench/load/README.md.");
  absl::ParseCommandLine(argc, argv);
  return hapmoe::bench::Run();
}
