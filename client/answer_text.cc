#include "client/answer_text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/coverage_text.h"
#include "client/explain_text.h"
#include "client/frontier_text.h"
#include "client/plan_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr auto kRight = TextTable::Align::kRight;

std::string UniformText(const v1::PlanAnswer& answer) {
  if (!answer.has_uniform()) {
    return "No plan with equal layers and recomputation on every stage fits.\n";
  }
  const v1::UniformComparison& uniform = answer.uniform();
  return absl::StrCat("Best uniform plan: ", SecondsText(uniform.prediction().iteration_seconds()),
                      absl::StrFormat(", %.2f times this plan's time", uniform.slowdown_ratio()),
                      "\n  ", DegreesText(uniform.plan()), ", micro-batch ",
                      uniform.plan().micro_batch_size(), "; layers ", LayersText(uniform.plan()),
                      ", against ", LayersText(answer.plan()), "\n");
}

std::string TerminationText(const v1::Termination& termination) {
  const v1::SearchStatistics& statistics = termination.statistics();
  std::string text = "Search: ";
  if (termination.reason() == v1::Termination::REASON_OPTIMAL) {
    absl::StrAppend(&text, "optimal, no plan of the space searched is faster\n");
  } else {
    absl::StrAppend(&text, "the best found; no plan of the space takes less than ",
                    SecondsText(termination.lower_bound_seconds()), " (gap ",
                    PercentText(termination.gap_ratio()), ")", LimitText(termination.limit()),
                    "\n");
  }
  absl::StrAppend(&text, "  ", CountOf(statistics.candidates(), "candidate"), ", ",
                  CountText(statistics.candidates_opened()), " opened, ",
                  CountOf(statistics.plans_simulated(), "plan"), " simulated; ",
                  SecondsText(statistics.search_cpu_seconds()), " of processor time, of ",
                  SecondsText(statistics.total_cpu_seconds()), " for the whole call\n");
  std::vector<std::string> pruned;
  for (const v1::PrunedCount& count : statistics.pruned()) {
    pruned.push_back(absl::StrCat(Printable(count.rule()), " ", CountText(count.candidates())));
  }
  if (!pruned.empty()) absl::StrAppend(&text, "  ruled out: ", absl::StrJoin(pruned, ", "), "\n");
  for (const std::string& restriction : termination.restrictions()) {
    absl::StrAppend(&text, "  restricted: ", Printable(restriction), "\n");
  }
  return text;
}

// A word as a shell reads it: only where it needs them between quotes.
std::string ShellWord(absl::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || absl::StrContains("/._-+@:=", static_cast<char>(c));
  });
  return plain ? std::string(word)
               : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// What to type, for files in a directory, or in DIR.
std::string SubmitText(const v1::PlanAnswer& answer, absl::string_view directory) {
  return absl::StrJoin(
      answer.submit_command(), " ", [directory](std::string* out, const std::string& word) {
        const absl::string_view folder = directory.empty() ? "DIR" : directory;
        absl::StrAppend(out, Printable(ShellWord(absl::StrReplaceAll(word, {{"{}", folder}}))));
      });
}

// How the engines compare, where any was asked for.
std::string EnginesText(const v1::PlanAnswer& answer) {
  if (answer.engines().empty()) return "";
  TextTable table({kLeft, kRight, kLeft});
  table.AddRow({"Engine", "Iteration", ""});
  for (const v1::EngineComparison& engine : answer.engines()) {
    const bool planned = engine.iteration_seconds() > 0;
    const std::string says = !planned                       ? engine.why_not()
                             : engine.requirement().empty() ? ""
                                                            : "needs " + engine.requirement();
    table.AddRow({Printable(engine.display_name()),
                  planned ? SecondsText(engine.iteration_seconds()) : "-", Printable(says)});
  }
  return absl::StrCat("Engines, that of the plan first:\n", table.Render(2), "\n");
}

std::string LaunchText(const v1::PlanAnswer& answer, absl::string_view directory) {
  std::string text;
  if (!answer.plan().engine_requirement().empty()) {
    absl::StrAppend(&text, "Needs: ", Printable(answer.plan().engine_requirement()), "\n\n");
  }
  if (answer.artifacts().empty()) return text;
  absl::StrAppend(
      &text, directory.empty() ? "Launch, with the files that --out DIR writes:\n" : "Launch:\n");
  TextTable table({kLeft, kLeft});
  for (const v1::Artifact& artifact : answer.artifacts()) {
    const std::string path = absl::StrCat(directory, directory.empty() ? "" : "/", artifact.name());
    table.AddRow({Printable(path), Printable(artifact.description())});
  }
  absl::StrAppend(&text, table.Render(2), NodesText(answer.plan()));
  if (!answer.submit_command().empty()) {
    absl::StrAppend(&text, "Submit:\n  ", SubmitText(answer, directory), "\n");
  }
  return text;
}

// Fields that hold one message each, and are set.
std::vector<const google::protobuf::FieldDescriptor*> MessageFields(
    const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  fields.erase(std::remove_if(fields.begin(), fields.end(),
                              [](const google::protobuf::FieldDescriptor* field) {
                                return field->is_repeated() || field->message_type() == nullptr;
                              }),
               fields.end());
  return fields;
}

// Every group of figures of a profile. Reflection, so that a new figure shows by itself.
void AddFigures(const v1::AcceleratorProfile& profile, TextTable& table) {
  for (const auto* group_field : MessageFields(profile)) {
    table.AddRow({absl::StrCat(group_field->name(), ":")});
    const google::protobuf::Message& group =
        profile.GetReflection()->GetMessage(profile, group_field);
    for (const auto* field : MessageFields(group)) {
      const auto* figure = google::protobuf::DynamicCastToGenerated<v1::Figure>(
          &group.GetReflection()->GetMessage(group, field));
      if (figure == nullptr) continue;
      table.AddRow({absl::StrCat("  ", field->name()), absl::StrFormat("%.6g", figure->value()),
                    Printable(figure->source())});
    }
  }
}

absl::string_view OriginText(v1::ProfileOrigin origin) {
  switch (origin) {
    case v1::PROFILE_ORIGIN_BUILT_IN:
      return "built in";
    case v1::PROFILE_ORIGIN_FILE:
      return "file";
    case v1::PROFILE_ORIGIN_STORED:
      return "stored";
    default:
      return "unknown";
  }
}

}  // namespace

std::string AnswerText(const v1::PlanAnswer& answer, absl::string_view directory) {
  std::string text = absl::StrCat(
      answer.has_choice() ? absl::StrCat(ChoiceText(answer.choice()), "\n") : "",
      PlanText(answer.plan()), "\n", PredictionText(answer.plan(), answer.prediction()), "\n",
      UniformText(answer), "\n");
  if (const std::string alternatives = AlternativesText(answer); !alternatives.empty()) {
    absl::StrAppend(&text, alternatives, "\n");
  }
  absl::StrAppend(&text, EnginesText(answer), TerminationText(answer.termination()));
  if (!answer.notes().empty()) absl::StrAppend(&text, "\nNotes:\n");
  for (const std::string& note : answer.notes()) {
    absl::StrAppend(&text, "  - ", Printable(note), "\n");
  }
  const std::string launch = LaunchText(answer, directory);
  if (!launch.empty()) absl::StrAppend(&text, "\n", launch);
  return text;
}

std::string EvaluationText(const v1::EvaluateResponse& response) {
  std::string text = absl::StrCat(PlanText(response.plan()), "\n");
  if (!response.prediction().fits()) {
    absl::StrAppend(&text, "DOES NOT FIT:\n", MisfitText(response.plan()), "\n");
  }
  absl::StrAppend(&text, PredictionText(response.plan(), response.prediction()));
  if (!response.plan().engine_requirement().empty()) {
    absl::StrAppend(&text, "\nNeeds: ", Printable(response.plan().engine_requirement()), "\n");
  }
  return text;
}

std::string ProgressText(const v1::Progress& progress) {
  std::string text = absl::StrCat("searching: ", CountText(progress.candidates_done()), " of ",
                                  CountOf(progress.candidates(), "candidate"));
  if (progress.best_iteration_seconds() > 0) {
    absl::StrAppend(&text, ", best ", SecondsText(progress.best_iteration_seconds()));
  }
  if (progress.lower_bound_seconds() > 0) {
    absl::StrAppend(&text, ", none below ", SecondsText(progress.lower_bound_seconds()));
  }
  return text;
}

std::string ServerInfoText(const v1::GetServerInfoResponse& info) {
  TextTable table({kLeft, kLeft});
  table.AddRow({"version", Printable(info.version())});
  table.AddRow({"engines", Printable(absl::StrJoin(info.engines(), ", "))});
  table.AddRow({"profiles", absl::StrCat(CountText(info.profiles()), " (version ",
                                         info.profiles_version(), " of the store)")});
  table.AddRow({"search threads", absl::StrCat(info.search_threads())});
  table.AddRow(
      {"longest search", SecondsText(static_cast<double>(info.max_time_budget().seconds()) +
                                     1e-9 * static_cast<double>(info.max_time_budget().nanos()))});
  return table.Render(0);
}

std::string ProfileListText(const v1::ListProfilesResponse& profiles) {
  TextTable table({kLeft, kLeft, kLeft, kRight, kRight, kRight, kLeft});
  table.AddRow({"Accelerator", "Aliases", "Vendor", "Memory GiB", "TFLOP/s", "Samples", "Origin"});
  for (const v1::ProfileSummary& profile : profiles.profiles()) {
    table.AddRow({Printable(profile.accelerator()),
                  Printable(absl::StrJoin(profile.aliases(), ", ")), Printable(profile.vendor()),
                  GibibytesText(profile.memory_capacity_bytes()),
                  absl::StrFormat("%.1f", profile.matrix_flops_per_second() / 1e12),
                  CountText(profile.sample_count()), std::string(OriginText(profile.origin()))});
  }
  return table.Render(0);
}

std::string ProfileText(const v1::GetProfileResponse& response) {
  const v1::AcceleratorProfile& profile = response.profile();
  std::string text =
      absl::StrCat(Printable(profile.accelerator()), ", ", Printable(profile.vendor()), " ",
                   Printable(profile.architecture()), ", ", OriginText(response.origin()),
                   ", version ", response.version(), "\n");
  if (!profile.aliases().empty()) {
    absl::StrAppend(&text, "also called ", Printable(absl::StrJoin(profile.aliases(), ", ")), "\n");
  }
  TextTable table({kLeft, kRight, kLeft});
  AddFigures(profile, table);
  absl::StrAppend(&text, table.Render(0), MeasuredText(profile));
  if (!profile.notes().empty()) absl::StrAppend(&text, Printable(profile.notes()), "\n");
  return text;
}

}  // namespace hapmoe::client
