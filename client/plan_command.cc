// hapmoe plan.
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/answer_text.h"
#include "client/artifact_writer.h"
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

// One line on standard error that shows how far the search is. A terminal's line is overwritten.
class ProgressLine {
 public:
  explicit ProgressLine(const Console& console) : console_(console) {}
  ~ProgressLine() {
    if (console_.err_is_terminal && shown_) console_.err << "\r\x1b[K" << std::flush;
  }

  void Show(const v1::Progress& progress) {
    shown_ = true;
    const std::string text = ProgressText(progress);
    if (console_.err_is_terminal) {
      console_.err << "\r\x1b[K" << text << std::flush;
    } else {
      console_.err << text << std::endl;
    }
  }

 private:
  const Console& console_;
  bool shown_ = false;
};

// Plans with the streaming call and shows its progress.
grpc::Status PlanWithProgress(const v1::PlanRequest& request, const Console& console,
                              Connection& connection, v1::PlanResponse& response) {
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::StreamPlanRequest stream_request;
  stream_request.set_request_id(request.request_id());
  *stream_request.mutable_problem() = request.problem();
  *stream_request.mutable_launch() = request.launch();
  const auto reader = connection.planner().StreamPlan(&context, stream_request);
  ProgressLine line(console);
  bool answered = false;
  v1::StreamPlanResponse event;
  while (reader->Read(&event)) {
    if (event.has_progress()) line.Show(event.progress());
    if (event.has_answer()) {
      answered = true;
      *response.mutable_answer() = std::move(*event.mutable_answer());
    }
  }
  response.set_request_id(request.request_id());
  grpc::Status status = reader->Finish();
  if (status.ok() && !answered) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "the stream ended without an answer");
  }
  return status;
}

}  // namespace

ExitCode RunPlan(const Options& options, const Console& console, Connection& connection) {
  absl::StatusOr<v1::Problem> problem = ReadProblem(options, console);
  if (!problem.ok()) return ReportUsage(problem.status(), console);
  absl::StatusOr<v1::LaunchOptions> launch = ReadLaunchOptions(options);
  if (!launch.ok()) return ReportUsage(launch.status(), console);
  v1::PlanRequest request;
  request.set_request_id(options.request_id);
  *request.mutable_problem() = *std::move(problem);
  if (!launch->scheduler().empty()) *request.mutable_launch() = *std::move(launch);

  v1::PlanResponse response;
  const grpc::Status status =
      options.progress ? PlanWithProgress(request, console, connection, response)
                       : connection.Call(&v1::PlannerService::Stub::Plan, request, response);
  if (!status.ok()) return ReportFailure(status, console, connection);

  // Written before the answer is printed, which says where the files are.
  absl::Status written;
  if (!options.out.empty()) {
    written = WriteArtifacts(response.answer().artifacts(), options.out);
  }
  const std::string directory = written.ok() ? options.out : "";
  const auto text = [&directory](const v1::PlanResponse& planned) {
    return AnswerText(planned.answer(), directory);
  };
  PrintAnswer(response, text, options, console);
  if (written.ok()) {
    const std::vector<std::string> others =
        options.out.empty() ? std::vector<std::string>()
                            : FilesOfOtherPlans(response.answer().artifacts(), options.out);
    if (!others.empty()) {
      console.err << "hapmoe: " << Printable(options.out)
                  << " also holds files of another plan: " << absl::StrJoin(others, ", ") << "\n";
    }
    return kDone;
  }
  console.err << "hapmoe: " << Printable(written.message()) << "\n";
  return kRefused;
}

}  // namespace hapmoe::client
