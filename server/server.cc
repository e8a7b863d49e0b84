#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "server/concurrency/call_registry.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/embedded/embedded.h"
#include "server/feedback/feedback_store.h"
#include "server/log/log.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_exposer.h"
#include "server/metrics/process_metrics.h"
#include "server/option_bounds.h"
#include "server/plan_cache/plan_desk.h"
#include "server/planning/engine_catalog.h"
#include "server/planning/planner.h"
#include "server/planning/scheduler_catalog.h"
#include "server/profile_store/directory_watcher.h"
#include "server/profile_store/profile_store.h"
#include "server/rpc/feedback_service.h"
#include "server/rpc/plan_metrics.h"
#include "server/rpc/planner_service.h"
#include "server/rpc/profiles_service.h"
#include "server/security/credentials.h"
#include "server/security/writers.h"
#include "server/storage/earlier_files.h"
#include "server/storage/observed_storage.h"
#include "server/storage/open_storage.h"
#include "server/storage/storage_watcher.h"
#include "server/warm_up.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;

// After grace: for interrupted searches to build their answers, and for answers to be sent.
constexpr std::chrono::nanoseconds kInterruptedGrace = std::chrono::seconds(2);
constexpr milliseconds kSendingGrace{500};
// Beyond the longest search: for waiting in the queue, and for the answer.
constexpr std::chrono::nanoseconds kConnectionGrace = std::chrono::seconds(30);
// They wait more than they work.
constexpr int kFeedbackThreads = 4;
constexpr int kStorageThreads = 2;
// Searches take all the time that they are given: whatever else there is to do comes first.
constexpr int kSearchNiceness = 10;
// What another server stored is in force here after this time at the latest, even where the storage
// cannot tell of it.
constexpr milliseconds kStoragePeriod{1000};

absl::StatusOr<EngineCatalog> EmbeddedEngineCatalog() {
  std::vector<absl::string_view> texts;
  for (const EmbeddedFile& file : EmbeddedEngines()) texts.push_back(file.content);
  return EngineCatalog::Parse(texts);
}

absl::StatusOr<SchedulerCatalog> EmbeddedSchedulerCatalog() {
  std::vector<absl::string_view> texts;
  for (const EmbeddedFile& file : EmbeddedSchedulers()) texts.push_back(file.content);
  return SchedulerCatalog::Parse(texts);
}

void LogFaults(const std::vector<LoadFault>& faults) {
  for (const LoadFault& fault : faults) {
    LogLine(Severity::kError, "record_refused")
        .Add("source", fault.source)
        .Add("message", fault.message);
  }
}

// Messages of storages name files, hosts and what these say; no content, and no password.
void LogStorage(const absl::Status& status) {
  if (status.ok()) {
    LogLine(Severity::kInfo, "storage_works");
  } else {
    LogLine(Severity::kError, "storage_failed")
        .Add("code", absl::StatusCodeToString(status.code()))
        .Add("message", status.message());
  }
}

absl::StatusOr<std::shared_ptr<ObservedStorage>> OpenRecords(const ServerOptions& options) {
  HAPMOE_ASSIGN_OR_RETURN(std::unique_ptr<RecordStorage> storage,
                          OpenStorage(options.store, options.state_dir));
  if (!options.state_dir.empty()) {
    HAPMOE_ASSIGN_OR_RETURN(const ImportedFiles imported,
                            ImportEarlierFiles(options.state_dir, *storage));
    LogFaults(imported.faults);
    if (imported.profiles + imported.reports > 0) {
      LogLine(Severity::kInfo, "earlier_files_imported")
          .Add("profiles", imported.profiles)
          .Add("reports", imported.reports);
    }
  }
  return std::make_shared<ObservedStorage>(std::move(storage), LogStorage);
}

absl::StatusOr<std::unique_ptr<ProfileStore>> OpenProfiles(const ServerOptions& options,
                                                           std::shared_ptr<RecordStorage> storage) {
  ProfileStore::Options store;
  for (const EmbeddedFile& file : EmbeddedProfiles()) {
    store.built_in.push_back({file.name, file.content});
  }
  store.directory = options.profiles_dir;
  store.storage = std::move(storage);
  return ProfileStore::Open(std::move(store));
}

absl::StatusOr<std::unique_ptr<FeedbackStore>> OpenFeedback(std::shared_ptr<RecordStorage> storage,
                                                            const ProfileStore& profiles,
                                                            const EngineCatalog& engines) {
  FeedbackStore::Options store;
  store.profiles = &profiles;
  store.engines = &engines;
  store.storage = std::move(storage);
  return FeedbackStore::Open(std::move(store));
}

absl::Status Check(const ServerOptions& options) {
  HAPMOE_RETURN_IF_ERROR(CheckOptionBounds(options));
  const auto refuse = [](absl::string_view name, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--", name, " ", what));
  };
  if (options.search_threads < 1) return refuse("search_threads", "must be at least 1");
  if (options.light_threads < 1) return refuse("light_threads", "must be at least 1");
  if (options.max_time_budget <= std::chrono::nanoseconds::zero()) {
    return refuse("max_time_budget", "must be above 0");
  }
  if (options.profiles_period < milliseconds(1)) {
    return refuse("profiles_period", "must be at least 1 ms");
  }
  if (options.max_message_bytes < 1024) return refuse("max_message_bytes", "must be at least 1024");
  if (!options.writers.empty() && options.tls.client_ca.empty()) {
    return refuse("writers", "needs --tls_client_ca: who a client is, its certificate says");
  }
  return absl::OkStatus();
}

// Callers that keep a connection connect anew after this time, so that they find other replicas; a
// call goes on on its old connection for as long as one may take.
void SetConnectionAge(grpc::ServerBuilder& builder, const ServerOptions& options) {
  if (options.max_connection_age == std::chrono::nanoseconds::zero()) return;
  const auto in_milliseconds = [](std::chrono::nanoseconds time) {
    return static_cast<int>(std::chrono::ceil<milliseconds>(time).count());
  };
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             in_milliseconds(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             in_milliseconds(options.max_time_budget + kConnectionGrace));
}

}  // namespace

struct Server::Parts {
  Parts(std::unique_ptr<const EngineCatalog> catalog, SchedulerCatalog scheduler_catalog,
        std::shared_ptr<ObservedStorage> records, std::unique_ptr<ProfileStore> store,
        std::unique_ptr<FeedbackStore> reports, std::unique_ptr<PlanSolver> search,
        const ServerOptions& options)
      : engines(std::move(catalog)),
        schedulers(std::move(scheduler_catalog)),
        storage(std::move(records)),
        profiles(std::move(store)),
        feedback(std::move(reports)),
        solver(std::move(search)),
        search_pool(options.search_threads, options.queue_size, kSearchNiceness),
        light_pool(options.light_threads, options.light_queue_size),
        feedback_pool(kFeedbackThreads, options.light_queue_size),
        storage_pool(kStorageThreads, options.light_queue_size),
        request_bytes(options.max_request_memory),
        metrics(kVersion, kCommit, kLookupNames),
        search_memory(options.max_search_memory, options.search_threads),
        planner(*profiles, *engines, *solver, search_pool, timer,
                {.max_time_budget = options.max_time_budget,
                 .schedulers = &schedulers,
                 .memory = &search_memory},
                feedback.get()),
        plan_metrics(metrics),
        desk(planner, search_pool, light_pool, timer,
             {.most_bytes = options.plan_cache_bytes,
              .planner_version = absl::StrCat(kVersion, " ", kCommit),
              .flights = {.most_age = options.max_time_budget, .retry_after = kRetryAfter}},
             &plan_metrics),
        writers(options.writers),
        environment{registry,     timer,         search_pool, light_pool, feedback_pool,
                    storage_pool, request_bytes, metrics,     writers},
        planner_service(environment, desk, planner, *profiles, kVersion),
        profiles_service(environment, *profiles),
        feedback_service(environment, *feedback) {
    // Plans that are answered from the cache long after they were made can be reported too.
    feedback->SetMorePlans([this](const std::string& plan_id) { return desk.FindPlan(plan_id); });
  }

  void AddGauges();
  void AddFeedbackGauges();
  // Threads that take in what changes outside of calls.
  void Watch(const ServerOptions& options, std::string seen);

  const std::unique_ptr<const EngineCatalog> engines;
  const SchedulerCatalog schedulers;
  const std::shared_ptr<ObservedStorage> storage;
  const std::unique_ptr<ProfileStore> profiles;
  const std::unique_ptr<FeedbackStore> feedback;
  const std::unique_ptr<PlanSolver> solver;
  DeadlineTimer timer;
  CallRegistry registry;
  ThreadPool search_pool;
  ThreadPool light_pool;
  ThreadPool feedback_pool;
  ThreadPool storage_pool;
  ByteBound request_bytes;
  Metrics metrics;
  MemoryBudget search_memory;
  Planner planner;
  PlanMetrics plan_metrics;
  PlanDesk desk;
  const Writers writers;
  CallEnvironment environment;
  PlannerServiceImpl planner_service;
  ProfilesServiceImpl profiles_service;
  FeedbackServiceImpl feedback_service;
  std::unique_ptr<StorageWatcher> storage_watcher;
  std::unique_ptr<DirectoryWatcher> directory_watcher;
  std::unique_ptr<TlsCredentials> tls;  // Null: calls come in plain text.
  std::unique_ptr<MetricsExposer> exposer;
  std::unique_ptr<grpc::Server> grpc;  // Ends first.
};

void Server::Parts::AddGauges() {
  for (const auto& [name, pool] : {std::pair{"search", &search_pool},
                                   {"light", &light_pool},
                                   {"feedback", &feedback_pool},
                                   {"storage", &storage_pool}}) {
    const std::map<std::string, std::string> labels = {{"pool", name}};
    metrics.AddGauge("hapmoe_queue_depth", "Calls that wait for a thread.", labels,
                     [p = pool] { return static_cast<double>(p->queued()); });
    metrics.AddGauge("hapmoe_pool_threads", "Threads.", labels,
                     [p = pool] { return static_cast<double>(p->threads()); });
    metrics.AddGauge("hapmoe_pool_busy_threads", "Threads at work.", labels,
                     [p = pool] { return static_cast<double>(p->busy()); });
  }
  metrics.AddGauge("hapmoe_inflight_requests", "Calls that are not answered yet.", {},
                   [this] { return static_cast<double>(registry.in_flight()); });
  metrics.AddGauge("hapmoe_inflight_request_bytes", "Bytes of the requests of these calls.", {},
                   [this] { return static_cast<double>(request_bytes.taken()); });
  metrics.AddGauge("hapmoe_profiles_loaded", "Accelerator profiles in force.", {},
                   [this] { return static_cast<double>(profiles->catalog()->size()); });
  metrics.AddGauge("hapmoe_storage_up",
                   "1 if the storage of profiles and reports answered when it was last asked.", {},
                   [this] { return storage->works() ? 1.0 : 0.0; });
  metrics.AddGauge("hapmoe_cache_entries", "Answers that are kept.", {},
                   [this] { return static_cast<double>(desk.cache().entries()); });
  metrics.AddGauge("hapmoe_cache_bytes", "Memory of the answers that are kept.", {},
                   [this] { return static_cast<double>(desk.cache().bytes()); });
  metrics.AddGauge("hapmoe_search_memory_bytes", "Memory that searches have.", {},
                   [this] { return static_cast<double>(search_memory.used_bytes()); });
  metrics.AddGauge("hapmoe_search_memory_limit_bytes", "Memory that searches may have together.",
                   {}, [this] { return static_cast<double>(search_memory.most_bytes()); });
  metrics.AddGauge("hapmoe_shared_searches",
                   "Searches that calls of Plan, Frontier and Explain wait for.", {},
                   [this] { return static_cast<double>(desk.flights().flying()); });
  AddFeedbackGauges();
}

void Server::Parts::Watch(const ServerOptions& options, std::string seen) {
  storage_watcher = std::make_unique<StorageWatcher>(*storage, kStoragePeriod, [this] {
    for (auto faults : {profiles->Refresh(), feedback->Refresh()}) {
      if (!faults.ok() || faults->empty()) continue;  // The storage tells its failures itself.
      metrics.RecordRefused(faults->size());
      LogFaults(*faults);
    }
  });
  if (options.profiles_dir.empty()) return;
  directory_watcher = std::make_unique<DirectoryWatcher>(
      options.profiles_dir, std::move(seen), options.profiles_period, [this] {
        const std::vector<LoadFault> faults = profiles->ReloadDirectory();
        metrics.RecordReload(faults.size());
        LogFaults(faults);
        LogLine(Severity::kInfo, "profiles_reloaded")
            .Add("profiles", static_cast<int64_t>(profiles->catalog()->size()))
            .Add("refused", static_cast<int64_t>(faults.size()));
      });
}

// Of the types that are known at the start; those that are put later have no series.
void Server::Parts::AddFeedbackGauges() {
  const std::vector<std::string> accelerators = profiles->catalog()->Names();
  metrics.AddReportedTypes(accelerators);
  for (const std::string& accelerator : accelerators) {
    metrics.AddGauge("hapmoe_reports", "Reports of iterations that are kept.",
                     {{"accelerator", accelerator}},
                     [this, accelerator] { return feedback->Reports(accelerator); });
    for (size_t i = 0; i < profile::kTerms; ++i) {
      metrics.AddGauge(
          "hapmoe_correction_factor", "Factor on what profiles predict, by reports; 1 without.",
          {{"accelerator", accelerator}, {"term", profile::kTermNames[i]}}, [this, accelerator, i] {
            return feedback->Factor(accelerator, static_cast<profile::Term>(i));
          });
    }
  }
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<PlanSolver> solver) {
  HAPMOE_RETURN_IF_ERROR(Check(options));
  HAPMOE_ASSIGN_OR_RETURN(EngineCatalog catalog, EmbeddedEngineCatalog());
  auto engines = std::make_unique<const EngineCatalog>(std::move(catalog));
  HAPMOE_ASSIGN_OR_RETURN(SchedulerCatalog schedulers, EmbeddedSchedulerCatalog());
  HAPMOE_ASSIGN_OR_RETURN(std::shared_ptr<ObservedStorage> storage, OpenRecords(options));
  // Taken before the files are read: what changes in between is read again.
  std::string seen = DirectoryFingerprint(options.profiles_dir);
  HAPMOE_ASSIGN_OR_RETURN(std::unique_ptr<ProfileStore> profiles, OpenProfiles(options, storage));
  HAPMOE_ASSIGN_OR_RETURN(std::unique_ptr<FeedbackStore> feedback,
                          OpenFeedback(storage, *profiles, *engines));
  std::unique_ptr<Server> server(new Server(std::make_unique<Parts>(
      std::move(engines), std::move(schedulers), std::move(storage), std::move(profiles),
      std::move(feedback), std::move(solver), options)));
  Parts& parts = *server->parts_;
  parts.metrics.RecordReload(parts.profiles->faults().size());
  LogFaults(server->faults());
  parts.AddGauges();
  parts.Watch(options, std::move(seen));
  if (options.warm_up) {
    const int planned = WarmUp(parts.planner, *parts.profiles->catalog());
    LogLine(Severity::kInfo, "warmed_up").Add("plans", planned);
  }
  if (options.tls.enabled()) {
    HAPMOE_ASSIGN_OR_RETURN(parts.tls, TlsCredentials::Open(options.tls));
    parts.metrics.AddGauge(
        "hapmoe_certificate_expiry_timestamp_seconds", "When the server's certificate ends.", {},
        [&tls = *parts.tls] { return static_cast<double>(absl::ToUnixSeconds(tls.expiry())); });
  }
  if (!options.metrics_listen.empty()) {
    auto collectables = parts.metrics.collectables();
    collectables.push_back(std::make_shared<ProcessMetrics>());
    HAPMOE_ASSIGN_OR_RETURN(parts.exposer,
                            MetricsExposer::Start(options.metrics_listen, std::move(collectables)));
    server->metrics_port_ = parts.exposer->port();
  }

  // Both must be called before a builder is made; the second keeps the linker from dropping
  // the library.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(
      options.listen,
      parts.tls == nullptr ? grpc::InsecureServerCredentials() : parts.tls->ForServer(),
      &server->port_);
  builder.RegisterService(&parts.planner_service);
  builder.RegisterService(&parts.profiles_service);
  builder.RegisterService(&parts.feedback_service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // Otherwise two servers share a port, and each answers some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping every 20 s, with or without calls; dead peers are found within 80 s.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(options.keepalive_time.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(options.keepalive_timeout.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  SetConnectionAge(builder, options);
  parts.grpc = builder.BuildAndStart();
  if (parts.grpc == nullptr || (server->port_ == 0 && options.listen.rfind("unix:", 0) != 0)) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen));
  }
  for (const char* service :
       {v1::PlannerService::service_full_name(), v1::ProfilesService::service_full_name(),
        v1::FeedbackService::service_full_name()}) {
    parts.grpc->GetHealthCheckService()->SetServingStatus(service, true);
  }
  return server;
}

Server::~Server() {
  if (parts_->grpc == nullptr) return;
  if (!parts_->registry.draining()) Drain(std::chrono::nanoseconds::zero());
}

std::vector<LoadFault> Server::faults() const {
  std::vector<LoadFault> faults = parts_->profiles->faults();
  const std::vector<LoadFault>& reports = parts_->feedback->faults();
  faults.insert(faults.end(), reports.begin(), reports.end());
  return faults;
}

size_t Server::profiles() const { return parts_->profiles->catalog()->size(); }

bool Server::Drain(std::chrono::nanoseconds grace) {
  parts_->grpc->GetHealthCheckService()->Shutdown();
  parts_->registry.StartDrain();
  bool answered = parts_->registry.WaitIdle(grace);
  if (!answered) {
    parts_->registry.InterruptAll();
    parts_->desk.EndAll();
    parts_->feedback->EndWaits();
    answered = parts_->registry.WaitIdle(kInterruptedGrace);
  }
  parts_->grpc->Shutdown(std::chrono::system_clock::now() + kSendingGrace);
  parts_->grpc->Wait();
  return answered;
}

}  // namespace hapmoe::server
