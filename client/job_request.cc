#include "client/job_request.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/argument_text.h"
#include "client/cluster_file.h"
#include "client/flagscale_file.h"
#include "client/launch_kind.h"
#include "client/router_stats_file.h"
#include "client/scheduler_file.h"
#include "client/script_capture.h"
#include "client/script_reading/static_reading.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;

// A launch of a list: its number, the arguments that tell it from the first, what speaks against
// it.
std::string LaunchLine(size_t number, const Launch& launch, const Launch& first) {
  std::vector<std::string> different;
  for (size_t i = 0; i < launch.arguments.size() && different.size() < 6; ++i) {
    if (i >= first.arguments.size() || launch.arguments[i] != first.arguments[i]) {
      different.push_back(launch.arguments[i]);
    }
  }
  const std::string refusal = RefusalOf(launch);
  return absl::StrCat("  ", number, ": ", launch.program, " ", launch.entry, ", ",
                      launch.arguments.size(), " arguments", different.empty() ? "" : ": ... ",
                      absl::StrJoin(different, " "), refusal.empty() ? "" : " - ", refusal);
}

std::string NoteLines(const std::vector<std::string>& notes) {
  std::string lines;
  for (const std::string& note : notes) absl::StrAppend(&lines, "\n  ", Printable(note));
  return lines;
}

// The launch to plan: the one that was asked for, the only one, or the only one that trains.
absl::StatusOr<Launch> PickLaunch(const Options& options, const ScriptRun& run,
                                  const Console& console) {
  const std::vector<Launch>& launches = run.launches;
  const auto wanted = static_cast<size_t>(options.launch);
  if (launches.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.script, " launched nothing that is known (torchrun, python, srun, ...)",
        run.notes.empty() ? "" : ":", NoteLines(run.notes),
        "\nGive it what it needs with --env NAME=VALUE and arguments after --, or write the job's "
        "arguments to a file for --args-file."));
  }
  size_t picked = wanted;
  if (picked == 0 && launches.size() == 1) picked = 1;
  size_t trainings = 0;
  for (size_t i = 0; i < launches.size() && wanted == 0 && launches.size() > 1; ++i) {
    if (!IsTraining(launches[i]) || !RefusalOf(launches[i]).empty()) continue;
    ++trainings;
    picked = i + 1;
  }
  if (trainings > 1) picked = 0;
  if (trainings == 1) {
    console.err << "hapmoe: " << options.script << " launches " << launches.size()
                << " times; taken is the only launch that trains, " << picked << ": "
                << Printable(launches[picked - 1].entry) << " (--launch N takes another)\n";
  }
  if (picked >= 1 && picked <= launches.size()) {
    const Launch& launch = launches[picked - 1];
    if (wanted == 0 && !IsTraining(launch) && RefusalOf(launch).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(options.script, " launches only ",
                                                     launch.program, " ", Printable(launch.entry),
                                                     ", whose arguments are none of a training (no "
                                                     "--num-layers, no --micro-batch-size); if it "
                                                     "trains all the same, give --launch 1",
                                                     NoteLines(run.notes)));
    }
    if (const std::string refusal = RefusalOf(launch); !refusal.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(options.script, ": ", launch.program, " ",
                                                     Printable(launch.entry), ": ", refusal));
    }
    return launch;
  }
  std::vector<std::string> lines;
  lines.reserve(launches.size());
  for (const Launch& launch : launches) {
    lines.push_back(Printable(LaunchLine(lines.size() + 1, launch, launches[0])));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      wanted > 0 ? absl::StrCat("--launch ", wanted, ": ") : "", options.script, " launches ",
      launches.size(), " times; pick one with --launch N:\n", absl::StrJoin(lines, "\n")));
}

absl::StatusOr<v1::Job> ReadScript(const Options& options, const Console& console) {
  absl::StatusOr<ScriptRun> run = ReadLaunches(options, console);
  if (!run.ok()) return run.status();
  absl::StatusOr<Launch> launch = PickLaunch(options, *run, console);
  if (!launch.ok()) return launch.status();
  for (const std::string& note : run->notes) {
    console.err << "hapmoe: " << options.script << ": " << Printable(note) << "\n";
  }
  if (launch->program == "flagscale") {
    const std::vector<std::string> taken = TakeFlagScaleOnly(launch->arguments);
    if (!taken.empty()) {
      console.err << "hapmoe: " << options.script
                  << ": these are FlagScale's own and not part of the plan; add them where it "
                     "runs: "
                  << Printable(absl::StrJoin(taken, " ")) << "\n";
    }
  }
  // Names alone: a value may be a secret. Launchers set one of them as the plan needs it.
  std::vector<std::string> names;
  for (const auto& [name, value] : launch->environment) {
    if (name != "CUDA_DEVICE_MAX_CONNECTIONS") names.push_back(name);
  }
  const bool launches = options.command == Command::kPlan;
  if (launches && !names.empty()) {
    console.err
        << "hapmoe: " << options.script
        << " exports variables that are not part of the plan; set those that the job still needs "
           "where its launcher runs: "
        << Printable(absl::StrJoin(names, " ")) << "\n";
  }
  v1::Job job;
  job.set_entry(launch->entry);
  *job.mutable_megatron_args() = {launch->arguments.begin(), launch->arguments.end()};
  return job;
}

absl::StatusOr<v1::Job> ReadArguments(const Options& options, const Console& console) {
  v1::Job job;
  if (options.args_file.empty()) {
    *job.mutable_megatron_args() = {options.rest->begin(), options.rest->end()};
    return job;
  }
  absl::StatusOr<std::string> text = ReadFile(options.args_file, console.in, kMaxFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<std::string>> arguments = ParseArgumentText(*text);
  if (!arguments.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.args_file, ": ", arguments.status().message()));
  }
  *job.mutable_megatron_args() = {arguments->begin(), arguments->end()};
  return job;
}

// Reads a file as `parse` does; faults name file and line.
template <typename Message>
absl::StatusOr<Message> ReadYamlFile(const std::string& path,
                                     std::vector<TextFault> (*parse)(absl::string_view, Message&)) {
  std::ifstream nothing;
  absl::StatusOr<std::string> text = ReadFile(path, nothing, kMaxFileBytes);
  if (!text.ok()) return text.status();
  Message message;
  std::vector<std::string> lines;
  for (const TextFault& fault : parse(*text, message)) {
    lines.push_back(absl::StrCat(path, ":", fault.line, ": ", Printable(fault.what)));
  }
  if (!lines.empty()) return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  return message;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, std::istream& in, size_t max_bytes) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& stream = path == "-" ? in : file;
  std::string text(max_bytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || (path != "-" && !file.is_open()) || (!stream && !stream.eof())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is larger than ", max_bytes, " bytes"));
  }
  return text;
}

absl::StatusOr<ScriptRun> ReadLaunches(const Options& options, const Console& console) {
  if (IsYamlFile(options.script)) {
    if (options.rest && !options.rest->empty()) {
      return absl::InvalidArgumentError("a YAML file takes no arguments after --");
    }
    return ReadFlagScaleFile(options.script);
  }
  ScriptRequest request;
  request.script = options.script;
  if (options.rest) request.arguments = *options.rest;
  request.environment = options.script_environment;
  request.home = console.environment("HOME").value_or("/tmp");
  return options.script_reading == ScriptReading::kStatic ? ReadScriptStatically(request)
                                                          : ScriptCapture().Run(request);
}

absl::StatusOr<v1::Job> ReadJob(const Options& options, const Console& console) {
  const bool script = !options.script.empty();
  const bool file = !options.args_file.empty();
  if (script && file) {
    return absl::InvalidArgumentError("give the job once: --script or --args-file");
  }
  if (file && options.rest) {
    return absl::InvalidArgumentError("give the job once: --args-file, or arguments after --");
  }
  if (!script && !file && !options.rest) {
    return absl::InvalidArgumentError(
        "the job is missing: give --script FILE, --args-file FILE, or its arguments after --");
  }
  if (!script && (options.launch > 0 || !options.script_environment.empty())) {
    return absl::InvalidArgumentError("--launch and --env go with --script");
  }
  absl::StatusOr<v1::Job> job =
      script ? ReadScript(options, console) : ReadArguments(options, console);
  if (!job.ok()) return job;
  if (!options.entry.empty()) job->set_entry(options.entry);
  if (options.imbalance_quantile.has_value()) {
    job->set_imbalance_quantile(*options.imbalance_quantile);
  }
  if (!options.router_stats.empty()) {
    absl::StatusOr<std::string> text = ReadFile(options.router_stats, console.in, kMaxFileBytes);
    if (!text.ok()) return text.status();
    absl::StatusOr<v1::RouterStatistics> statistics =
        ParseRouterStatistics(options.router_stats, *text);
    if (!statistics.ok()) return statistics.status();
    *job->mutable_router_statistics() = *std::move(statistics);
  }
  return job;
}

absl::StatusOr<v1::Cluster> ReadCluster(const Options& options) {
  if (options.cluster.empty()) {
    return absl::InvalidArgumentError("the cluster is missing: give --cluster FILE");
  }
  return ReadYamlFile<v1::Cluster>(options.cluster, ParseCluster);
}

absl::StatusOr<v1::LaunchOptions> ReadLaunchOptions(const Options& options) {
  v1::LaunchOptions launch;
  if (!options.scheduler_file.empty()) {
    auto read = ReadYamlFile<v1::LaunchOptions>(options.scheduler_file, ParseSchedulerFile);
    if (!read.ok()) return read;
    launch = *std::move(read);
  }
  if (!options.scheduler.empty()) launch.set_scheduler(options.scheduler);
  if (launch.scheduler().empty() && !options.scheduler_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--scheduler-file goes with --scheduler, unless ", options.scheduler_file, " names one"));
  }
  return launch;
}

absl::StatusOr<v1::Problem> ReadProblem(const Options& options, const Console& console) {
  absl::StatusOr<v1::Cluster> cluster = ReadCluster(options);
  if (!cluster.ok()) return cluster.status();
  absl::StatusOr<v1::Job> job = ReadJob(options, console);
  if (!job.ok()) return job.status();
  v1::Problem problem;
  *problem.mutable_job() = *std::move(job);
  *problem.mutable_cluster() = *std::move(cluster);
  *problem.mutable_constraints() = options.constraints;
  if (options.objective.has_value()) *problem.mutable_objective() = *options.objective;
  return problem;
}

absl::StatusOr<v1::EvaluateRequest> ReadEvaluateRequest(const Options& options,
                                                        const Console& console) {
  absl::StatusOr<v1::Cluster> cluster = ReadCluster(options);
  if (!cluster.ok()) return cluster.status();
  absl::StatusOr<v1::Job> job = ReadJob(options, console);
  if (!job.ok()) return job.status();
  v1::EvaluateRequest request;
  request.set_request_id(options.request_id);
  *request.mutable_job() = *std::move(job);
  *request.mutable_cluster() = *std::move(cluster);
  request.set_world_size(options.world_size);
  if (options.constraints.has_memory_headroom_ratio()) {
    request.set_memory_headroom_ratio(options.constraints.memory_headroom_ratio());
  }
  return request;
}

}  // namespace hapmoe::client
