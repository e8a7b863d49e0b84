#include "client/options.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

// A setter reads an option's value into its place, or says what the value must be.
using Setter = absl::Status (*)(absl::string_view text, Options& options);

template <bool Options::*field>
absl::Status Switch(absl::string_view, Options& o) {
  o.*field = true;
  return absl::OkStatus();
}

template <std::string Options::*field>
absl::Status Text(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.*field = std::string(text);
  return absl::OkStatus();
}

template <int32_t Options::*field>
absl::Status Integer(absl::string_view text, Options& o) {
  if (!absl::SimpleAtoi(text, &(o.*field)) || o.*field < 1) {
    return absl::InvalidArgumentError("must be a whole number above 0");
  }
  return absl::OkStatus();
}

template <google::protobuf::RepeatedField<int32_t>* (v1::Constraints::*field)()>
absl::Status Degrees(absl::string_view text, Options& o) {
  google::protobuf::RepeatedField<int32_t>& degrees = *(o.constraints.*field)();
  degrees.Clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int32_t degree = 0;
    if (!absl::SimpleAtoi(part, &degree) || degree < 1) {
      return absl::InvalidArgumentError("must be whole numbers above 0, separated by commas");
    }
    degrees.Add(degree);
  }
  return absl::OkStatus();
}

absl::Status SetEngine(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.constraints.set_engine(std::string(text));
  return absl::OkStatus();
}

absl::Status SetDispatchers(absl::string_view text, Options& o) {
  o.constraints.clear_token_dispatcher();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part != "allgather" && part != "alltoall" && part != "flex") {
      return absl::InvalidArgumentError("must be of allgather, alltoall and flex, with commas");
    }
    o.constraints.add_token_dispatcher(std::string(part));
  }
  return absl::OkStatus();
}

absl::Status SetAllowIdle(absl::string_view, Options& o) {
  o.constraints.set_allow_idle_accelerators(true);
  return absl::OkStatus();
}

absl::Status SetKeepRecompute(absl::string_view, Options& o) {
  o.constraints.set_keep_recompute(true);
  return absl::OkStatus();
}

absl::Status SetLoadBalancePruning(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio <= 10)) {
    return absl::InvalidArgumentError("must be from 0 to 10, 0.5 for half a share more or less");
  }
  o.constraints.mutable_prunings()->set_load_balance_ratio(ratio);
  return absl::OkStatus();
}

absl::Status SetCrossTypePruning(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio > 0 && std::isfinite(ratio))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  o.constraints.mutable_prunings()->set_cross_type_ratio(ratio);
  return absl::OkStatus();
}

absl::Status SetServer(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.server = std::string(text);
  return absl::OkStatus();
}

absl::Status SetDeadline(absl::string_view text, Options& o) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (duration.ok()) o.deadline = *duration;
  return duration.status();
}

absl::Status SetTimeBudget(absl::string_view text, Options& o) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (!duration.ok()) return duration.status();
  absl::Duration rest;
  google::protobuf::Duration& budget = *o.constraints.mutable_time_budget();
  budget.set_seconds(absl::IDivDuration(*duration, absl::Seconds(1), &rest));
  budget.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return absl::OkStatus();
}

absl::Status SetOutput(absl::string_view text, Options& o) {
  if (text != "text" && text != "json") return absl::InvalidArgumentError("must be text or json");
  o.output = text == "json" ? OutputFormat::kJson : OutputFormat::kText;
  return absl::OkStatus();
}

absl::Status SetHeadroom(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio < 1)) {
    return absl::InvalidArgumentError("must be at least 0 and below 1, 0.1 for a tenth");
  }
  o.constraints.set_memory_headroom_ratio(ratio);
  return absl::OkStatus();
}

v1::Objective& ObjectiveOf(Options& o) {
  if (!o.objective.has_value()) o.objective.emplace();
  return *o.objective;
}

absl::Status SetObjective(absl::string_view text, Options& o) {
  for (const auto& [name, kind] : {std::pair{"time", v1::Objective::KIND_TIME},
                                   {"price", v1::Objective::KIND_PRICE},
                                   {"fewest", v1::Objective::KIND_FEWEST}}) {
    if (text != name) continue;
    ObjectiveOf(o).set_kind(kind);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be time, price or fewest");
}

template <void (v1::Objective::*set)(double)>
absl::Status Limit(absl::string_view text, Options& o) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value > 0 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  (ObjectiveOf(o).*set)(value);
  return absl::OkStatus();
}

absl::Status AddSizes(absl::string_view text, Options& o) {
  const size_t equals = text.find('=');
  v1::PoolSizes sizes;
  sizes.set_pool(std::string(text.substr(0, equals)));
  const std::string list(equals == absl::string_view::npos ? "" : text.substr(equals + 1));
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    uint32_t nodes = 0;
    if (sizes.pool().empty() || !absl::SimpleAtoi(part, &nodes)) {
      return absl::InvalidArgumentError("must be POOL=NODES,NODES,..., fast=0,2,4 for example");
    }
    sizes.add_nodes(nodes);
  }
  o.sizes.push_back(std::move(sizes));
  return absl::OkStatus();
}

absl::Status SetImbalanceQuantile(absl::string_view text, Options& o) {
  double quantile = 0;
  if (!absl::SimpleAtod(text, &quantile) || !(quantile >= 0 && quantile < 1)) {
    return absl::InvalidArgumentError("must be at least 0 and below 1, 0.99 for 99 of 100");
  }
  o.imbalance_quantile = quantile;
  return absl::OkStatus();
}

absl::Status SetScriptReading(absl::string_view text, Options& o) {
  if (text != "sandbox" && text != "static") {
    return absl::InvalidArgumentError("must be sandbox or static");
  }
  o.script_reading = text == "static" ? ScriptReading::kStatic : ScriptReading::kSandbox;
  return absl::OkStatus();
}

absl::Status AddEnvironment(absl::string_view text, Options& o) {
  if (text.find('=') == absl::string_view::npos || text[0] == '=') {
    return absl::InvalidArgumentError("must be NAME=VALUE");
  }
  o.script_environment.emplace_back(text);
  return absl::OkStatus();
}

template <void (v1::LayerTable::*set)(int64_t)>
absl::Status LayerSize(absl::string_view text, Options& o) {
  int32_t size = 0;
  if (!absl::SimpleAtoi(text, &size) || size < 1) {
    return absl::InvalidArgumentError("must be a whole number above 0");
  }
  (o.layer.*set)(size);
  return absl::OkStatus();
}

absl::Status SetPrecision(absl::string_view text, Options& o) {
  for (const auto& [name, precision] : {std::pair{"bf16", v1::PRECISION_BF16},
                                        {"fp16", v1::PRECISION_FP16},
                                        {"fp8", v1::PRECISION_FP8},
                                        {"fp32", v1::PRECISION_FP32}}) {
    if (text != name) continue;
    o.layer.set_precision(precision);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be bf16, fp16, fp8 or fp32");
}

absl::Status SetFormat(absl::string_view text, Options& o) {
  if (text != "sailor" && text != "metis" && text != "galvatron") {
    return absl::InvalidArgumentError("must be sailor, metis or galvatron");
  }
  o.format = std::string(text);
  return absl::OkStatus();
}

absl::Status SetGated(absl::string_view, Options& o) {
  o.layer.set_gated_mlp(true);
  return absl::OkStatus();
}

absl::Status SetIncludesCommunication(absl::string_view, Options& o) {
  o.layer.set_includes_tensor_communication(true);
  return absl::OkStatus();
}

absl::Status SetSource(absl::string_view text, Options& o) {
  o.layer.set_source(std::string(text));
  return absl::OkStatus();
}

absl::Status SetLicence(absl::string_view text, Options& o) {
  o.layer.set_licence(std::string(text));
  return absl::OkStatus();
}

absl::StatusOr<double> AboveZero(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value > 0 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  return value;
}

absl::Status SetSeconds(absl::string_view text, Options& o) {
  const absl::StatusOr<double> value = AboveZero(text);
  if (value.ok()) o.report.set_iteration_seconds(*value);
  return value.status();
}

template <void (v1::IterationReport::*set)(int64_t)>
absl::Status Gibibytes(absl::string_view text, Options& o) {
  const absl::StatusOr<double> value = AboveZero(text);
  if (!value.ok()) return value.status();
  if (*value > 1e6) return absl::InvalidArgumentError("must be gibibytes, at most 1000000");
  (o.report.*set)(std::llround(*value * 1024 * 1024 * 1024));
  return absl::OkStatus();
}

absl::Status SetRho(absl::string_view text, Options& o) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value >= 1 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be at least 1, 1.2 for a fifth above the mean");
  }
  o.report.set_load_imbalance(value);
  return absl::OkStatus();
}

absl::Status SetPlanId(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.report.set_plan_id(std::string(text));
  return absl::OkStatus();
}

constexpr uint32_t Bit(Command command) { return 1u << static_cast<int>(command); }
constexpr uint32_t kPlan = Bit(Command::kPlan);
// What searches.
constexpr uint32_t kSearch = kPlan | Bit(Command::kFrontier) | Bit(Command::kExplain);
constexpr uint32_t kImport = Bit(Command::kProfiles);
constexpr uint32_t kReport = Bit(Command::kReport);
constexpr uint32_t kJob = kSearch | Bit(Command::kEvaluate);
// What names a job and its layout; profiles takes it for `coverage`.
constexpr uint32_t kLayout = kJob | kReport | Bit(Command::kProfiles);
constexpr uint32_t kScript = kLayout | Bit(Command::kArgs);
constexpr uint32_t kCalls = kJob | kReport | Bit(Command::kInfo) | Bit(Command::kProfiles);
constexpr uint32_t kAll = ~0u;

// One option. `value` names its value in the help text; an option without is a switch.
struct Option {
  const char* name;
  const char* short_name;
  const char* value;
  uint32_t commands;
  const char* help;
  Setter set;
};

const Option kOptions[] = {
    {"--server", "", "ADDRESS", kCalls,
     "host:port or unix:PATH of the server; else HAPMOE_SERVER, else 127.0.0.1:50051", SetServer},
    {"--deadline", "", "TIME", kCalls,
     "give up after TIME: seconds, or 500ms, 2m; 30s when left out", SetDeadline},
    {"--output", "-o", "FORMAT", kCalls, "text or json; text when left out", SetOutput},
    {"--script", "", "FILE", kScript,
     "launch script of the job, its arguments follow --; or a YAML file of FlagScale",
     Text<&Options::script>},
    {"--script-reading", "", "HOW", kScript,
     "sandbox: run it among stubs; static: do not run it, refuse what is uncertain",
     SetScriptReading},
    {"--env", "", "NAME=VALUE", kScript,
     "set a variable for the script, whose environment is empty otherwise; repeatable",
     AddEnvironment},
    {"--launch", "", "N", kLayout, "which launch of a script that launches several jobs",
     Integer<&Options::launch>},
    {"--args-file", "", "FILE", kLayout,
     "arguments of the training script: words quoted as in a shell, or a JSON list",
     Text<&Options::args_file>},
    {"--entry", "", "FILE", kLayout,
     "training script that the launcher starts; else the job's own, else pretrain_gpt.py",
     Text<&Options::entry>},
    {"--router-stats", "", "FILE", kLayout,
     "tokens that each expert received: a JSON list of a list for each layer of experts",
     Text<&Options::router_stats>},
    {"--imbalance-quantile", "", "Q", kLayout,
     "memory holds the busiest expert rank in this share of passes; 0.99 when left out",
     SetImbalanceQuantile},
    {"--cluster", "", "FILE", kLayout, "the cluster, YAML or JSON", Text<&Options::cluster>},
    {"--tp", "", "LIST", kSearch, "allowed tensor parallel degrees, 1,2,4 for example",
     Degrees<&v1::Constraints::mutable_tp>},
    {"--cp", "", "LIST", kSearch, "allowed context parallel degrees",
     Degrees<&v1::Constraints::mutable_cp>},
    {"--ep", "", "LIST", kSearch, "allowed expert parallel degrees",
     Degrees<&v1::Constraints::mutable_ep>},
    {"--etp", "", "LIST", kSearch, "allowed expert tensor parallel degrees",
     Degrees<&v1::Constraints::mutable_etp>},
    {"--dp", "", "LIST", kSearch, "allowed data parallel degrees",
     Degrees<&v1::Constraints::mutable_dp>},
    {"--pp", "", "LIST", kSearch, "allowed numbers of pipeline stages",
     Degrees<&v1::Constraints::mutable_pp>},
    {"--vp", "", "LIST", kSearch, "allowed numbers of virtual stages of each rank, from 1 to 8",
     Degrees<&v1::Constraints::mutable_virtual_stages>},
    {"--micro-batch-size", "", "LIST", kSearch, "allowed micro-batch sizes; else the job's own",
     Degrees<&v1::Constraints::mutable_micro_batch_size>},
    {"--dispatcher", "", "LIST", kSearch,
     "allowed dispatchers of tokens: allgather, alltoall, flex; else the job's own",
     SetDispatchers},
    {"--headroom", "", "RATIO", kJob, "share of device memory to leave free; 0.05 when left out",
     SetHeadroom},
    {"--time-budget", "", "TIME", kSearch, "longest search", SetTimeBudget},
    {"--allow-idle", "", "", kSearch, "the plan may leave accelerators idle", SetAllowIdle},
    {"--keep-recompute", "", "", kSearch, "keep the job's own recomputation on every stage",
     SetKeepRecompute},
    {"--prune-load-balance", "", "DELTA", kSearch,
     "quicker: a stage holds within (1 +- DELTA) of its share of layers by peak rate",
     SetLoadBalancePruning},
    {"--prune-cross-type", "", "ETA", kSearch,
     "quicker: no transfer between types that takes over ETA times a stage's mean passes",
     SetCrossTypePruning},
    {"--engine", "", "NAME", kSearch,
     "engine that runs the plan, or any: the best over all; megatron-lm when left out", SetEngine},
    {"--objective", "", "NAME", kPlan,
     "what is best: time, price (most tokens for it) or fewest (accelerators); else time",
     SetObjective},
    {"--deadline-seconds", "", "S", kPlan, "objective: longest iteration allowed, in seconds",
     Limit<&v1::Objective::set_deadline_seconds>},
    {"--throughput", "", "TOKENS", kPlan, "objective: least tokens in a second",
     Limit<&v1::Objective::set_tokens_per_second>},
    {"--sizes", "", "POOL=LIST", Bit(Command::kFrontier),
     "numbers of nodes of a pool to try; else 1,2,4... and all; may be repeated", AddSizes},
    {"--memory-steps", "", "N", Bit(Command::kFrontier),
     "further searches of each allocation, with ever less memory", Integer<&Options::memory_steps>},
    {"--request-id", "", "TEXT", kJob, "name of the request in the server's logs",
     Text<&Options::request_id>},
    {"--out", "", "DIR", kPlan, "write the launcher files to DIR", Text<&Options::out>},
    {"--scheduler", "", "NAME", kPlan,
     "also write what starts the plan under slurm, jobset or volcano", Text<&Options::scheduler>},
    {"--scheduler-file", "", "FILE", kPlan,
     "what the scheduler is to be told: image, queues, names of nodes; YAML or JSON",
     Text<&Options::scheduler_file>},
    {"--progress", "", "", kPlan, "show the search's progress on standard error",
     Switch<&Options::progress>},
    {"--world-size", "", "N",
     Bit(Command::kEvaluate) | Bit(Command::kExplain) | kReport | Bit(Command::kProfiles),
     "accelerators in use by the job's layout; all of the cluster when left out",
     Integer<&Options::world_size>},
    {"--batch", "", "FILE", Bit(Command::kEvaluate),
     "evaluate each line of FILE (- for standard input)", Text<&Options::batch>},
    {"--seconds", "", "S", kReport, "time of one measured iteration", SetSeconds},
    {"--memory-gib", "", "G", kReport, "peak memory in use on the fullest rank, allocated",
     Gibibytes<&v1::IterationReport::set_allocated_memory_bytes>},
    {"--reserved-gib", "", "G", kReport, "the same with what the allocator holds beyond it",
     Gibibytes<&v1::IterationReport::set_reserved_memory_bytes>},
    {"--rho", "", "R", kReport, "tokens of the busiest expert rank over the mean", SetRho},
    {"--measured", "", "FILE", kReport, "the profiler's summary, which says all of these",
     Text<&Options::measured>},
    {"--plan", "", "FILE", kReport, "the plan that ran: what `plan -o json` printed",
     Text<&Options::plan_file>},
    {"--plan-id", "", "ID", kReport, "the plan that ran, if the server answered it not long ago",
     SetPlanId},
    {"--format", "", "NAME", kImport,
     "import: what wrote the layer times, sailor, metis or galvatron", SetFormat},
    {"--accelerator", "", "NAME", kImport, "import: accelerator that they were measured on",
     Text<&Options::accelerator>},
    {"--into", "", "PROFILE.json", kImport, "import: profile file to add them to",
     Text<&Options::into>},
    {"--hidden-size", "", "N", kImport, "import: width of the measured layer",
     LayerSize<&v1::LayerTable::set_hidden_size>},
    {"--ffn-hidden-size", "", "N", kImport, "import: width of its MLP",
     LayerSize<&v1::LayerTable::set_ffn_hidden_size>},
    {"--gated-mlp", "", "", kImport, "import: its MLP has a gate", SetGated},
    {"--attention-heads", "", "N", kImport, "import: its attention heads",
     LayerSize<&v1::LayerTable::set_attention_heads>},
    {"--query-groups", "", "N", kImport, "import: its query groups; else as many as heads",
     LayerSize<&v1::LayerTable::set_query_groups>},
    {"--seq-length", "", "N", kImport, "import: tokens of one sequence",
     LayerSize<&v1::LayerTable::set_sequence_length>},
    {"--precision", "", "NAME", kImport, "import: bf16, fp16, fp8 or fp32", SetPrecision},
    {"--includes-communication", "", "", kImport,
     "import: the times include tensor parallel collectives", SetIncludesCommunication},
    {"--source", "", "TEXT", kImport, "import: where the times were published", SetSource},
    {"--licence", "", "TEXT", kImport, "import: their licence", SetLicence},
    {"--help", "-h", "", kAll, "print this text", Switch<&Options::help>},
};

// A command as its help shows it.
struct CommandText {
  Command command;
  const char* name;
  const char* summary;
  const char* usage;
  const char* details;
};

const CommandText kCommands[] = {
    {Command::kPlan, "plan", "find the fastest plan of a job on a cluster",
     "hapmoe plan --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | -- ARGS) "
     "[OPTION...]",
     "Parallel sizes, layout and recomputation among the job's arguments are replaced by the "
     "plan's.\n"},
    {Command::kEvaluate, "evaluate", "cost the layout that a job's own arguments give",
     "hapmoe evaluate --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | -- ARGS) "
     "[OPTION...]\n"
     "       hapmoe evaluate --batch CASES.jsonl [OPTION...]",
     "A layout that does not fit is an answer, and exits 0. A line of CASES.jsonl is an object\n"
     "{id, megatron_args, world_size, cluster}; for each, one object is printed, in the same "
     "order.\n"},
    {Command::kFrontier, "frontier", "say what parts of a cluster would give",
     "hapmoe frontier --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | -- ARGS) "
     "[OPTION...]",
     "The first nodes of each pool are searched as a cluster of their own, for every combination "
     "of sizes.\n"},
    {Command::kExplain, "explain", "say why the best plan beats the layout of a job's arguments",
     "hapmoe explain --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | -- ARGS) "
     "[OPTION...]",
     "A layout that is invalid or does not fit is an answer, and exits 0.\n"},
    {Command::kProfiles, "profiles", "list, show, store and delete accelerator profiles",
     "hapmoe profiles list | get NAME | put FILE... | delete NAME  [OPTION...]\n"
     "       hapmoe profiles coverage NAME... [OPTION...]\n"
     "       hapmoe profiles coverage --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | "
     "-- ARGS) [OPTION...]\n"
     "       hapmoe profiles import --format NAME --accelerator NAME --into PROFILE.json FILE... "
     "[OPTION...]",
     "put reads JSON, - for standard input; what `get -o json` printed can be put back.\n"
     "coverage says what is measured, and with a job and its cluster how far the predicted time "
     "rests\non it.\n"},
    {Command::kArgs, "args", "show what a launch script launches, as JSON",
     "hapmoe args --script FILE [OPTION...] [-- ARGS]",
     "Calls no server. Each launch is an object {program, launcher_args, entry, args, env, "
     "world_size,\nrefusal}; several launches of a script are numbered from 1, for --launch N.\n"},
    {Command::kReport, "report", "tell the planner what an iteration took, and how it corrects",
     "hapmoe report --cluster FILE (--script FILE [-- ARGS] | --args-file FILE | -- ARGS) "
     "(--seconds S | --measured FILE) [OPTION...]\n"
     "       hapmoe report (--plan FILE | --plan-id ID) (--seconds S | --measured FILE) "
     "[OPTION...]\n"
     "       hapmoe report list | delete NAME | factors  [OPTION...]",
     "Without --plan the layout of the job's own arguments ran. A plan without its job and "
     "cluster\n"
     "is one that the server still knows.\n"},
    {Command::kInfo, "info", "say what the server is and can do", "hapmoe info [OPTION...]", ""},
    {Command::kVersion, "version", "print the version of this program", "hapmoe version", ""},
    {Command::kHelp, "help", "explain a command", "hapmoe help [COMMAND]", ""},
};

const CommandText& TextOf(Command command) {
  return *std::find_if(std::begin(kCommands), std::end(kCommands),
                       [command](const CommandText& text) { return text.command == command; });
}

absl::Status UsageError(absl::string_view what, absl::string_view nearest) {
  return absl::InvalidArgumentError(
      nearest.empty() ? std::string(what) : absl::StrCat(what, "; did you mean ", nearest, "?"));
}

absl::StatusOr<const Option*> FindOption(absl::string_view name, Command command) {
  std::vector<std::string> known;
  for (const Option& option : kOptions) {
    if ((option.commands & Bit(command)) == 0) continue;
    if (name == option.name || (*option.short_name != 0 && name == option.short_name)) {
      return &option;
    }
    known.emplace_back(option.name);
  }
  return UsageError(absl::StrCat(TextOf(command).name, " has no option ", name),
                    NearestWord(name, known));
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError("must be seconds, or a time such as 500ms, 30s or 2m");
  }
  // A NaN of seconds becomes an infinite duration.
  if (duration <= absl::ZeroDuration() || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError("must be above 0 and at most 24h");
  }
  return duration;
}

absl::StatusOr<Command> ParseCommand(absl::string_view name) {
  if (name == "--help" || name == "-h") return Command::kHelp;
  if (name == "--version") return Command::kVersion;
  std::vector<std::string> known;
  for (const CommandText& text : kCommands) {
    if (name == text.name) return text.command;
    known.emplace_back(text.name);
  }
  return UsageError(absl::StrCat("there is no command ", name), NearestWord(name, known));
}

absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments) {
  Options options;
  if (arguments.empty()) {
    return UsageError("a command is missing; `hapmoe help` lists them", "");
  }
  absl::StatusOr<Command> command = ParseCommand(arguments[0]);
  if (!command.ok()) return command.status();
  options.command = *command;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const absl::string_view word = arguments[i];
    if (word == "--") {
      options.rest.emplace(arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      options.words.emplace_back(word);
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    const bool attached = parts.first.size() < word.size();
    absl::StatusOr<const Option*> option = FindOption(parts.first, *command);
    if (!option.ok()) return option.status();
    const bool is_switch = *(*option)->value == 0;
    if (is_switch && attached) {
      return UsageError(absl::StrCat(parts.first, " takes no value"), "");
    }
    absl::string_view value = parts.second;
    if (!is_switch && !attached) {
      // A value that looks like an option is more often a forgotten value; `=` can still give it.
      if (i + 1 == arguments.size() || absl::StartsWith(arguments[i + 1], "--")) {
        return UsageError(absl::StrCat(parts.first, " needs a value (", (*option)->value, ")"), "");
      }
      value = arguments[++i];
    }
    if (absl::Status status = (*option)->set(value, options); !status.ok()) {
      return UsageError(absl::StrCat(parts.first, " ", status.message(), ", not \"", value, "\""),
                        "");
    }
  }
  return options;
}

std::string HelpText(Command command) {
  using Align = TextTable::Align;
  const CommandText& text = TextOf(command);
  TextTable table({Align::kLeft, Align::kLeft});
  if (command == Command::kHelp) {
    for (const CommandText& each : kCommands) table.AddRow({each.name, each.summary});
    return absl::StrCat(
        "hapmoe plans the training of large models on mixed accelerators.\n\n"
        "Usage: hapmoe COMMAND [OPTION...]\n\n",
        table.Render(2),
        "\n`hapmoe help COMMAND` explains one of them.\n"
        "Exit status: 0 done, 1 infeasible or refused, 2 usage, 3 server unreachable or "
        "failing.\n");
  }
  for (const Option& option : kOptions) {
    if ((option.commands & Bit(command)) == 0) continue;
    table.AddRow({absl::StrCat(option.short_name, *option.short_name != 0 ? ", " : "", option.name,
                               *option.value != 0 ? " " : "", option.value),
                  option.help});
  }
  return absl::StrCat("Usage: ", text.usage, "\n\n", text.summary, ".\n", text.details, "\n",
                      table.Render(2));
}

}  // namespace hapmoe::client
