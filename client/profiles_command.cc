// hapmoe profiles list | get | put | delete | coverage | import.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/answer_text.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxProfileBytes = 4 << 20;

ExitCode List(const Options& options, const Console& console, Connection& connection) {
  v1::ListProfilesResponse all;
  v1::ListProfilesRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    connection.Prepare(context);
    v1::ListProfilesResponse page;
    const grpc::Status status = connection.profiles().ListProfiles(&context, request, &page);
    if (!status.ok()) return ReportFailure(status, console, connection);
    all.mutable_profiles()->MergeFrom(page.profiles());
    // A server that repeats its token would keep us here for ever.
    if (page.next_page_token() == request.page_token()) break;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (options.output == OutputFormat::kJson) {
    PrintJson(all, console);
  } else {
    console.out << ProfileListText(all);
  }
  return kDone;
}

ExitCode Get(const Options& options, const Console& console, Connection& connection) {
  v1::GetProfileRequest request;
  request.set_accelerator(options.words[1]);
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::GetProfileResponse response;
  const grpc::Status status = connection.profiles().GetProfile(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << ProfileText(response);
  }
  return kDone;
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
    grpc::ClientContext context;
    connection.Prepare(context);
    v1::PutProfileResponse response;
    const grpc::Status status = connection.profiles().PutProfile(&context, request, &response);
    if (!status.ok()) {
      console.err << "hapmoe: " << options.words[i] << ":\n";
      return ReportFailure(status, console, connection);
    }
    if (options.output == OutputFormat::kJson) {
      PrintJson(response, console);
    } else {
      console.out << Printable(request.profile().accelerator()) << " stored as version "
                  << response.version() << "\n";
    }
  }
  return kDone;
}

ExitCode Delete(const Options& options, const Console& console, Connection& connection) {
  v1::DeleteProfileRequest request;
  request.set_accelerator(options.words[1]);
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::DeleteProfileResponse response;
  const grpc::Status status = connection.profiles().DeleteProfile(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << Printable(options.words[1]) << " deleted\n";
  }
  return kDone;
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
