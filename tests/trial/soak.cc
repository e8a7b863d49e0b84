// The soak: a mixed load for as long as one likes, during which nothing may grow or fail.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/load/latencies.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/trial/calls.h"
#include "tests/trial/requests.h"
#include "tests/trial/server_under_trial.h"
#include "tests/trial/trials.h"

namespace hapmoe::trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Codes = std::vector<grpc::StatusCode>;

// Share of the machine's processor time that the server is to use.
constexpr double kLoad = 0.5;
constexpr int64_t kMostUnderWay = 30;  // Below what the server lets one caller queue.
constexpr int kProfiles = 16;          // That come and go.
constexpr int kKept = 8;               // Plans that are asked for again and again.
constexpr seconds kDeadline{30};

enum class Kind {
  kKeptPlan,
  kFreshPlan,
  kPlanOnChangingProfile,
  kStream,
  kStreamLeft,
  kEvaluate,
  kFrontier,
  kExplain,
  kInfo,
  kListProfiles,
  kPutProfile,
  kDeleteProfile,
  kReport,
  kListReports,
  kCancelledPlan,
  kCancelledFrontier,
  kLate,
  kNoPools,
  kUnknownType,
  kBadPage,
  kTooLarge,
  kJunk,
};

struct KindFacts {
  Kind kind;
  const char* name;
  double weight;
  Codes codes;  // That it may end with.
};

const std::vector<KindFacts>& Kinds() {
  static const auto* const kinds = new std::vector<KindFacts>{
      {Kind::kKeptPlan, "kept plan", 40, {grpc::OK}},
      {Kind::kFreshPlan, "fresh plan", 8, {grpc::OK}},
      {Kind::kPlanOnChangingProfile, "plan on a changing profile", 3, {grpc::OK, grpc::NOT_FOUND}},
      {Kind::kStream, "stream", 2, {grpc::OK}},
      // The answer may be there before the caller has left.
      {Kind::kStreamLeft, "stream that is left", 1, {grpc::OK, grpc::CANCELLED}},
      {Kind::kEvaluate, "evaluate", 15, {grpc::OK}},
      {Kind::kFrontier, "frontier", 2, {grpc::OK}},
      {Kind::kExplain, "explain", 2, {grpc::OK}},
      {Kind::kInfo, "info", 5, {grpc::OK}},
      {Kind::kListProfiles, "list profiles", 3, {grpc::OK}},
      {Kind::kPutProfile, "put profile", 2, {grpc::OK}},
      {Kind::kDeleteProfile, "delete profile", 2, {grpc::OK, grpc::NOT_FOUND}},
      // Only the latest of a plan are kept.
      {Kind::kReport, "report and delete it", 1, {grpc::OK, grpc::NOT_FOUND}},
      {Kind::kListReports, "list reports", 1, {grpc::OK}},
      {Kind::kCancelledPlan, "plan that is cancelled", 0.5, {grpc::OK, grpc::CANCELLED}},
      {Kind::kCancelledFrontier, "frontier that is cancelled", 0.5, {grpc::OK, grpc::CANCELLED}},
      {Kind::kLate, "plan with too little time", 1, {grpc::OK, grpc::DEADLINE_EXCEEDED}},
      {Kind::kNoPools, "plan without pools", 2, {grpc::INVALID_ARGUMENT}},
      {Kind::kUnknownType, "plan on an unknown type", 2, {grpc::NOT_FOUND}},
      {Kind::kBadPage, "list with a made-up token", 2, {grpc::INVALID_ARGUMENT}},
      {Kind::kTooLarge, "request that is too large", 0.1, {grpc::RESOURCE_EXHAUSTED}},
      {Kind::kJunk, "connection that speaks no HTTP/2", 0.2, {grpc::OK}},
  };
  return *kinds;
}

// What became of the calls of one kind. Thread safe.
struct Tally {
  bench::Latencies latencies;
  std::array<std::atomic<int64_t>, 17> codes = {};
};

struct Sample {
  double seconds = 0;
  bench::ProcessFigures figures;
};

double MedianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Load {
 public:
  explicit Load(const ServerUnderTrial& server)
      : server_(server), tallies_(Kinds().size()), random_(20261130) {
    for (int i = 0; i < 4; ++i) callers_.push_back(Connect(server.address(), /*retries=*/true));
    std::vector<double> weights;
    for (const KindFacts& facts : Kinds()) weights.push_back(facts.weight);
    pick_ = std::discrete_distribution<size_t>(weights.begin(), weights.end());
    v1::EvaluateRequest evaluate;
    const v1::IterationReport report = SmallReport(1);
    *evaluate.mutable_job() = report.job();
    *evaluate.mutable_cluster() = report.cluster();
    grpc::ClientContext context;
    v1::EvaluateResponse response;
    callers_.front().planner->Evaluate(&context, evaluate, &response);
    reported_seconds_ = response.prediction().iteration_seconds();
  }

  // Begins calls until `end`, at a rate that keeps the server at its load.
  void Run(Clock::time_point end) {
    double rate = 100;
    Clock::time_point checked = Clock::now();
    double cpu = server_.Figures().cpu_seconds;
    for (Clock::time_point next = Clock::now(); next < end;) {
      std::this_thread::sleep_until(next);
      CancelDue();
      if (calls_.under_way() < kMostUnderWay) BeginOne();
      const Clock::time_point now = Clock::now();
      next = std::max(next, now - milliseconds(100)) +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
      if (now - checked < seconds(1)) continue;
      const double cpu_now = server_.Figures().cpu_seconds;
      const double share = (cpu_now - cpu) / std::chrono::duration<double>(now - checked).count() /
                           std::thread::hardware_concurrency();
      rate = std::clamp(rate * std::clamp(kLoad / std::max(share, 0.01), 0.7, 1.3), 10.0, 20000.0);
      cpu = cpu_now;
      checked = now;
    }
    for (const auto& [when, handle] : to_cancel_) handle->TryCancel();
    to_cancel_.clear();
  }

  bool Wait() { return calls_.Wait(kDeadline + seconds(5)); }

  void Tell(Verdict& verdict) const {
    for (size_t i = 0; i < Kinds().size(); ++i) {
      const KindFacts& facts = Kinds()[i];
      const Tally& tally = tallies_[i];
      int64_t calls = 0;
      int64_t unexpected = 0;
      std::string codes;
      for (size_t code = 0; code < tally.codes.size(); ++code) {
        const int64_t count = tally.codes[code];
        calls += count;
        if (count == 0) continue;
        absl::StrAppend(&codes, " ", code, ":", count);
        const bool expected =
            std::count(facts.codes.begin(), facts.codes.end(), static_cast<int>(code)) > 0;
        if (!expected) unexpected += count;
      }
      verdict.Tell(absl::StrFormat("  %-34s %8d calls, p50 %8.2f ms, p99 %8.2f ms, codes%s",
                                   facts.name, calls, tally.latencies.QuantileSeconds(0.5) * 1e3,
                                   tally.latencies.QuantileSeconds(0.99) * 1e3, codes));
      if (unexpected > 0) verdict.RequireEqual(unexpected, 0, absl::StrCat(facts.name, " failed"));
    }
    MutexLock lock(faults_mutex_);
    for (const std::string& fault : faults_) verdict.Tell("  " + fault);
  }

 private:
  Caller& Next() { return callers_[static_cast<size_t>(number_) % callers_.size()]; }

  void Done(size_t kind, const Ended& ended) {
    Tally& tally = tallies_[kind];
    tally.latencies.Add(ended.took);
    const auto code = static_cast<size_t>(ended.status.error_code());
    tally.codes[std::min(code, tally.codes.size() - 1)].fetch_add(1);
    const Codes& expected = Kinds()[kind].codes;
    if (std::count(expected.begin(), expected.end(), ended.status.error_code()) > 0) return;
    MutexLock lock(faults_mutex_);
    if (faults_.size() < 20) {
      faults_.push_back(absl::StrCat(Kinds()[kind].name, ": ", ended.status.error_message()));
    }
  }

  // Begins a unary call of a kind whose answer does not matter.
  template <typename Response, typename Request, typename Begin>
  Calls::Handle Unary(size_t kind, Request request, Begin begin,
                      std::chrono::nanoseconds deadline = kDeadline) {
    return calls_.Start<Response>(
        std::move(request), deadline, std::move(begin),
        [this, kind](const Ended& ended, const Response&) { Done(kind, ended); });
  }
  Calls::Handle Plan(size_t kind, v1::PlanRequest request,
                     std::chrono::nanoseconds deadline = kDeadline) {
    auto* const async = Next().planner->async();
    return Unary<v1::PlanResponse>(
        kind, std::move(request), [async](auto... call) { async->Plan(call...); }, deadline);
  }

  void CancelSoon(Calls::Handle handle) {
    const milliseconds wait(std::uniform_int_distribution<int>(0, 50)(random_));
    to_cancel_.emplace(Clock::now() + wait, std::move(handle));
  }
  void CancelDue() {
    while (!to_cancel_.empty() && to_cancel_.begin()->first <= Clock::now()) {
      to_cancel_.begin()->second->TryCancel();
      to_cancel_.erase(to_cancel_.begin());
    }
  }

  std::string SomeProfile() {
    return absl::StrCat("soak-", std::uniform_int_distribution<int>(1, kProfiles)(random_));
  }

  // Bytes that are no HTTP/2, over a connection that then ends.
  void Junk(size_t kind) {
    const Clock::time_point start = Clock::now();
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_.port()));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      std::string bytes(64, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random_());
      (void)!send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    close(connection);
    Done(kind, {grpc::Status::OK, Clock::now() - start, {}});
  }

  void Report(size_t kind) {
    Caller& caller = Next();
    v1::ReportIterationRequest request;
    const double factor = std::uniform_real_distribution<double>(0.9, 1.1)(random_);
    *request.mutable_report() = SmallReport(reported_seconds_ * factor);
    auto* const async = caller.feedback->async();
    calls_.Start<v1::ReportIterationResponse>(
        std::move(request), kDeadline, [async](auto... call) { async->ReportIteration(call...); },
        [this, kind, async](const Ended& ended, const v1::ReportIterationResponse& response) {
          if (!ended.status.ok()) return Done(kind, ended);
          v1::DeleteReportRequest remove;
          remove.set_name(response.stored().name());
          Unary<v1::DeleteReportResponse>(kind, std::move(remove),
                                          [async](auto... call) { async->DeleteReport(call...); });
        });
  }

  void BeginOne() {
    const size_t picked = pick_(random_);
    const int64_t number = ++number_;
    Caller& caller = Next();
    auto* const planner = caller.planner->async();
    auto* const profiles = caller.profiles->async();
    switch (Kinds()[picked].kind) {
      case Kind::kKeptPlan:
        Plan(picked, SmallPlan(-1 - number % kKept));
        break;
      case Kind::kFreshPlan:
        Plan(picked, SmallPlan(number));
        break;
      case Kind::kPlanOnChangingProfile: {
        v1::PlanRequest request = SmallPlan(-1);
        *request.mutable_problem()->mutable_cluster() = server::ClusterOf(SomeProfile(), 1);
        Plan(picked, std::move(request));
        break;
      }
      case Kind::kStream:
      case Kind::kStreamLeft:
        StartStream(calls_, *caller.planner, Streamed(SmallPlan(number)), kDeadline,
                    Kinds()[picked].kind == Kind::kStream ? -1 : 1,
                    [this, picked](const Ended& ended, int, bool) { Done(picked, ended); });
        break;
      case Kind::kEvaluate:
        Unary<v1::EvaluateResponse>(picked, SmallEvaluate(),
                                    [planner](auto... call) { planner->Evaluate(call...); });
        break;
      case Kind::kFrontier:
        Unary<v1::FrontierResponse>(picked, SmallFrontier(number),
                                    [planner](auto... call) { planner->Frontier(call...); });
        break;
      case Kind::kExplain:
        Unary<v1::ExplainResponse>(picked, SmallExplain(number),
                                   [planner](auto... call) { planner->Explain(call...); });
        break;
      case Kind::kInfo:
        Unary<v1::GetServerInfoResponse>(
            picked, v1::GetServerInfoRequest(),
            [planner](auto... call) { planner->GetServerInfo(call...); });
        break;
      case Kind::kListProfiles:
      case Kind::kBadPage: {
        v1::ListProfilesRequest request;
        if (Kinds()[picked].kind == Kind::kBadPage) request.set_page_token("made up");
        Unary<v1::ListProfilesResponse>(picked, std::move(request), [profiles](auto... call) {
          profiles->ListProfiles(call...);
        });
        break;
      }
      case Kind::kPutProfile: {
        v1::PutProfileRequest request;
        *request.mutable_profile() = server::RoundProfile(SomeProfile());
        request.mutable_profile()->mutable_memory()->mutable_capacity_bytes()->set_value(
            64e9 + static_cast<double>(number % 1000) * 1e6);
        Unary<v1::PutProfileResponse>(picked, std::move(request),
                                      [profiles](auto... call) { profiles->PutProfile(call...); });
        break;
      }
      case Kind::kDeleteProfile: {
        v1::DeleteProfileRequest request;
        request.set_accelerator(SomeProfile());
        Unary<v1::DeleteProfileResponse>(picked, std::move(request), [profiles](auto... call) {
          profiles->DeleteProfile(call...);
        });
        break;
      }
      case Kind::kReport:
        Report(picked);
        break;
      case Kind::kListReports: {
        auto* const feedback = caller.feedback->async();
        Unary<v1::ListReportsResponse>(picked, v1::ListReportsRequest(), [feedback](auto... call) {
          feedback->ListReports(call...);
        });
        break;
      }
      case Kind::kCancelledPlan:
        CancelSoon(Plan(picked, LongPlan(number, seconds(20))));
        break;
      case Kind::kCancelledFrontier:
        CancelSoon(
            Unary<v1::FrontierResponse>(picked, LongFrontier(number, seconds(20)),
                                        [planner](auto... call) { planner->Frontier(call...); }));
        break;
      case Kind::kLate:
        Plan(picked, LongPlan(number, seconds(20)), milliseconds(number % 60));
        break;
      case Kind::kNoPools: {
        v1::PlanRequest request = SmallPlan(number);
        request.mutable_problem()->mutable_cluster()->clear_pools();
        Plan(picked, std::move(request));
        break;
      }
      case Kind::kUnknownType: {
        v1::PlanRequest request = SmallPlan(number);
        *request.mutable_problem()->mutable_cluster() =
            server::ClusterOf(absl::StrCat("no-such-", number), 1);
        Plan(picked, std::move(request));
        break;
      }
      case Kind::kTooLarge: {
        v1::PlanRequest request = SmallPlan(number);
        request.mutable_problem()->mutable_job()->add_megatron_args(std::string(5 << 20, 'x'));
        Plan(picked, std::move(request));
        break;
      }
      case Kind::kJunk:
        Junk(picked);
        break;
    }
  }

  const ServerUnderTrial& server_;
  std::vector<Caller> callers_;
  std::vector<Tally> tallies_;
  double reported_seconds_ = 0;

  // Used by the thread that begins calls.
  std::mt19937_64 random_;
  std::discrete_distribution<size_t> pick_;
  int64_t number_ = 0;
  std::multimap<Clock::time_point, Calls::Handle> to_cancel_;

  mutable Mutex faults_mutex_;
  std::vector<std::string> faults_ ABSL_GUARDED_BY(faults_mutex_);
  Calls calls_;
};

// Of the samples of one third of the time, the first third being for warming up.
double MedianOfThird(const std::vector<Sample>& samples, int third,
                     double (*figure)(const bench::ProcessFigures&)) {
  std::vector<double> values;
  for (size_t i = samples.size() * third / 3; i < samples.size() * (third + 1) / 3; ++i) {
    values.push_back(figure(samples[i].figures));
  }
  return MedianOf(std::move(values));
}

struct Bounded {
  const char* name;
  double (*figure)(const bench::ProcessFigures&);
  // Of the last third over the second, at most, with as much more. The allocator's arenas grow and
  // shrink by some MiB all the time.
  double ratio;
  double more;
  double short_ratio;  // The same of a soak so short that the first third does not warm it.
  double short_more;
};

constexpr seconds kShort{600};
constexpr Bounded kBounded[] = {
    {"resident MiB",
     [](const bench::ProcessFigures& figures) {
       return static_cast<double>(figures.resident_bytes) / (1 << 20);
     },
     1.02, 8, 1.25, 16},
    {"descriptors",
     [](const bench::ProcessFigures& figures) { return static_cast<double>(figures.descriptors); },
     1, 4, 1, 4},
    {"threads",
     [](const bench::ProcessFigures& figures) { return static_cast<double>(figures.threads); }, 1,
     4, 1, 8},
};

}  // namespace

void Soak(const TrialOptions& options, Verdict& verdict) {
  const server::TemporaryDirectory state;
  // A cache that is full once it is warm; connections that are made anew all the time.
  ServerUnderTrial server(options.program,
                          {"--state_dir=" + state.path(), "--plan_cache_bytes=4194304",
                           "--max_connection_age=7s", "--max_time_budget=20s"});
  verdict.Tell(absl::StrCat("for ", options.soak.count(), " s, as process ", server.program().pid(),
                            " at ", server.address()));
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + options.soak;
  const milliseconds period = std::clamp<milliseconds>(options.soak / 60, seconds(1), seconds(10));
  Load load(server);
  std::thread calling([&] { load.Run(end); });
  std::vector<Sample> samples;
  for (Clock::time_point next = start + period; next < end; next += period) {
    std::this_thread::sleep_until(next);
    samples.push_back(
        {std::chrono::duration<double>(Clock::now() - start).count(), server.Figures()});
    const Sample& now = samples.back();
    const MetricsNow metrics = server.Metrics();
    verdict.Tell(absl::StrFormat(
        "%7.0f s  resident %7.2f MiB, %4d descriptors, %3d threads, %7.1f s of processor, %9.0f "
        "calls, cache %5.2f MiB",
        now.seconds, static_cast<double>(now.figures.resident_bytes) / (1 << 20),
        now.figures.descriptors, now.figures.threads, now.figures.cpu_seconds,
        metrics.Sum("hapmoe_requests_total{"), metrics.Value("hapmoe_cache_bytes") / (1 << 20)));
  }
  calling.join();
  verdict.Require(load.Wait(), "every call is answered");
  load.Tell(verdict);
  const double share = samples.back().figures.cpu_seconds / samples.back().seconds /
                       std::thread::hardware_concurrency();
  verdict.Tell(absl::StrFormat("the server used %.0f %% of the machine", share * 100));
  for (const Bounded& bounded : kBounded) {
    const double before = MedianOfThird(samples, 1, bounded.figure);
    const double after = MedianOfThird(samples, 2, bounded.figure);
    const double most = options.soak < kShort ? before * bounded.short_ratio + bounded.short_more
                                              : before * bounded.ratio + bounded.more;
    verdict.RequireAtMost(after, most,
                          absl::StrCat("median of the last third after ", before, " of the second"),
                          bounded.name);
  }
  verdict.Require(server.BecomesIdle(seconds(10)), "the server is idle afterwards");
  verdict.RequireEqual(static_cast<int64_t>(server.Metrics().Value(
                           "hapmoe_errors_total{reason=\"INTERNAL_FAULT\"}")),
                       0, "internal faults");
  server.program().Signal(SIGTERM);
  verdict.RequireEqual(server.program().Wait(), 0, "exit status");
}

}  // namespace hapmoe::trial
