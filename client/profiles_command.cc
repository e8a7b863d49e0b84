// hapmoe profiles list | get | put | delete | coverage | import.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/answer_text.h"
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxProfileBytes = 4 << 20;

ExitCode List(const Options& options, const Console& console, Connection& connection) {
  return ListAllAndPrint(&v1::ProfilesService::Stub::ListProfiles, ProfileListText, options,
                         console, connection);
}

ExitCode Get(const Options& options, const Console& console, Connection& connection) {
  v1::GetProfileRequest request;
  request.set_accelerator(options.words[1]);
  return CallAndPrint(&v1::ProfilesService::Stub::GetProfile, request, ProfileText, options,
                      console, connection);
}

// Reads a profile file, or what `profiles get -o json` printed.
absl::StatusOr<v1::AcceleratorProfile> ReadProfile(const std::string& path,
                                                   const Console& console) {
  absl::StatusOr<std::string> text = ReadFile(path, console.in, kMaxProfileBytes);
  if (!text.ok()) return text.status();
  v1::AcceleratorProfile profile;
  const auto status = google::protobuf::util::JsonStringToMessage(*text, &profile);
  if (status.ok()) return profile;
  if (v1::GetProfileResponse response;
      google::protobuf::util::JsonStringToMessage(*text, &response).ok()) {
    return response.profile();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a profile: ",
                   Printable(absl::string_view(status.message().data(), status.message().size()))));
}

ExitCode Put(const Options& options, const Console& console, Connection& connection) {
  for (size_t i = 1; i < options.words.size(); ++i) {
    absl::StatusOr<v1::AcceleratorProfile> profile = ReadProfile(options.words[i], console);
    if (!profile.ok()) return ReportUsage(profile.status(), console);
    v1::PutProfileRequest request;
    *request.mutable_profile() = *std::move(profile);
    v1::PutProfileResponse response;
    const grpc::Status status =
        connection.Call(&v1::ProfilesService::Stub::PutProfile, request, response);
    if (!status.ok()) {
      console.err << "hapmoe: " << options.words[i] << ":\n";
      return ReportFailure(status, console, connection);
    }
    const auto text = [&request](const v1::PutProfileResponse& stored) {
      return absl::StrCat(Printable(request.profile().accelerator()), " stored as version ",
                          stored.version(), "\n");
    };
    PrintAnswer(response, text, options, console);
  }
  return kDone;
}

ExitCode Delete(const Options& options, const Console& console, Connection& connection) {
  v1::DeleteProfileRequest request;
  request.set_accelerator(options.words[1]);
  return CallAndPrint(&v1::ProfilesService::Stub::DeleteProfile, request, Deleted{options.words[1]},
                      options, console, connection);
}

ExitCode Import(const Options& options, const Console& console, Connection&) {
  return RunImport(options, console);
}

struct Action {
  const char* name;
  size_t min_words;  // Its own name counted.
  size_t max_words;
  const char* takes;
  ExitCode (*run)(const Options&, const Console&, Connection&);
};

constexpr Action kActions[] = {
    {"list", 1, 1, "nothing", List},      {"get", 2, 2, "one name", Get},
    {"put", 2, 1000, "files", Put},       {"delete", 2, 2, "one name", Delete},
    {"import", 2, 1000, "files", Import}, {"coverage", 1, 1000, "names", RunCoverage},
};

bool NamesJob(const Options& options) {
  return options.rest || !options.script.empty() || !options.script_environment.empty() ||
         options.launch > 0 || !options.args_file.empty() || !options.entry.empty() ||
         !options.cluster.empty() || options.world_size > 0;
}

}  // namespace

ExitCode RunProfiles(const Options& options, const Console& console, Connection& connection) {
  if (options.words.empty()) {
    return ReportUsage(
        absl::InvalidArgumentError("profiles takes list, get, put, delete, coverage or import"),
        console);
  }
  const std::string& word = options.words[0];
  std::vector<std::string> names;
  for (const Action& action : kActions) {
    names.emplace_back(action.name);
    if (word != action.name) continue;
    if (options.words.size() < action.min_words || options.words.size() > action.max_words) {
      return ReportUsage(absl::InvalidArgumentError(
                             absl::StrCat("profiles ", action.name, " takes ", action.takes)),
                         console);
    }
    if (action.run != RunCoverage && NamesJob(options)) {
      return ReportUsage(absl::InvalidArgumentError(
                             absl::StrCat("profiles ", action.name, " takes no job or cluster")),
                         console);
    }
    return action.run(options, console, connection);
  }
  const std::string nearest = NearestWord(word, names);
  return ReportUsage(absl::InvalidArgumentError(absl::StrCat(
                         "profiles has no action ", word,
                         nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"))),
                     console);
}

}  // namespace hapmoe::client
