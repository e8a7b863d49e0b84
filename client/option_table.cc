#include "client/option_table.h"

#include <algorithm>
#include <iterator>

namespace hapmoe::client::command_line {
namespace {

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

const Option kOptions[] = {
    {"--server", "", "ADDRESS", kCalls,
     "host:port or unix:PATH of the server; else HAPMOE_SERVER, else 127.0.0.1:50051", SetServer},
    {"--deadline", "", "TIME", kCalls,
     "give up after TIME: seconds, or 500ms, 2m; 30s when left out", SetDeadline},
    {"--tls", "", "", kCalls, "encrypt, and trust the issuers that this machine trusts",
     Switch<&ChannelSecurity::tls>},
    {"--tls-ca", "", "FILE", kCalls, "encrypt, and trust these issuers (PEM); else HAPMOE_TLS_CA",
     Text<&ChannelSecurity::ca>},
    {"--tls-cert", "", "FILE", kCalls,
     "certificate that says who this client is (PEM); else HAPMOE_TLS_CERT",
     Text<&ChannelSecurity::certificate>},
    {"--tls-key", "", "FILE", kCalls, "its private key (PEM); else HAPMOE_TLS_KEY",
     Text<&ChannelSecurity::key>},
    {"--tls-name", "", "NAME", kCalls,
     "what the server's certificate calls it, else its address; else HAPMOE_TLS_NAME",
     Text<&ChannelSecurity::name>},
    {"--output", "-o", "FORMAT", kCalls, "text or json; text when left out", SetOutput,
     "text json"},
    {"--script", "", "FILE", kScript,
     "launch script of the job, its arguments follow --; or a YAML file of FlagScale",
     Text<&Options::script>},
    {"--script-reading", "", "HOW", kScript,
     "sandbox: run it among stubs; static: do not run it, refuse what is uncertain",
     SetScriptReading, "sandbox static"},
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
     "engine that runs the plan, or any: the best over all; megatron-lm when left out", SetEngine,
     "any megatron-lm megatron-bridge primus mindspeed-llm flagscale"},
    {"--objective", "", "NAME", kPlan,
     "what is best: time, price (most tokens for it) or fewest (accelerators); else time",
     SetObjective, "time price fewest"},
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
     "also write what starts the plan under slurm, jobset or volcano", Text<&Options::scheduler>,
     "slurm jobset volcano"},
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
     "import: what wrote the layer times, sailor, metis or galvatron", SetFormat,
     "sailor metis galvatron"},
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
    {"--precision", "", "NAME", kImport, "import: bf16, fp16, fp8 or fp32", SetPrecision,
     "bf16 fp16 fp8 fp32"},
    {"--includes-communication", "", "", kImport,
     "import: the times include tensor parallel collectives", SetIncludesCommunication},
    {"--source", "", "TEXT", kImport, "import: where the times were published", SetSource},
    {"--licence", "", "TEXT", kImport, "import: their licence", SetLicence},
    {"--help", "-h", "", kAll, "print this text", Switch<&Options::help>},
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
     "rests\non it.\n",
     "list get put delete coverage import"},
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
     "is one that the server still knows.\n",
     "list delete factors"},
    {Command::kInfo, "info", "say what the server is and can do", "hapmoe info [OPTION...]", ""},
    {Command::kCompletion, "completion", "print what completes commands and options in bash",
     "hapmoe completion bash", "Loaded by: source <(hapmoe completion bash)\n", "bash"},
    {Command::kVersion, "version", "print the version of this program", "hapmoe version", ""},
    {Command::kHelp, "help", "explain a command", "hapmoe help [COMMAND]", ""},
};

}  // namespace

absl::Span<const Option> AllOptions() { return kOptions; }
absl::Span<const CommandText> AllCommands() { return kCommands; }

const CommandText& TextOf(Command command) {
  return *std::find_if(std::begin(kCommands), std::end(kCommands),
                       [command](const CommandText& text) { return text.command == command; });
}

}  // namespace hapmoe::client::command_line
