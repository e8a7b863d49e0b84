#include "server/rpc/feedback_service.h"

#include <memory>
#include <utility>

#include "server/rpc/unary_call.h"

namespace hapmoe::server {

grpc::ServerUnaryReactor* FeedbackServiceImpl::ReportIteration(
    grpc::CallbackServerContext* context, const v1::ReportIterationRequest* request,
    v1::ReportIterationResponse* response) {
  const auto until = EndOfWork(*context);
  return UnaryCall::Queue(
      environment_, environment_.feedback_pool, Method::kReportIteration, *context, *request,
      [this, request, response, until](const std::shared_ptr<Interrupter>&) {
        absl::StatusOr<FeedbackStore::Reported> reported =
            feedback_.Report(request->report(), until);
        if (!reported.ok()) return reported.status();
        const double seconds = request->report().iteration_seconds();
        environment_.metrics.RecordReport(reported->accelerators,
                                          seconds / reported->response.stored().predicted_seconds(),
                                          seconds / reported->response.predicted_before_seconds());
        *response = std::move(reported->response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* FeedbackServiceImpl::ListReports(grpc::CallbackServerContext* context,
                                                           const v1::ListReportsRequest* request,
                                                           v1::ListReportsResponse* response) {
  const auto until = EndOfWork(*context);
  return UnaryCall::Queue(
      environment_, environment_.feedback_pool, Method::kListReports, *context, *request,
      [this, request, response, until](const std::shared_ptr<Interrupter>&) {
        absl::StatusOr<v1::ListReportsResponse> list = feedback_.List(*request, until);
        if (!list.ok()) return list.status();
        *response = *std::move(list);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* FeedbackServiceImpl::DeleteReport(grpc::CallbackServerContext* context,
                                                            const v1::DeleteReportRequest* request,
                                                            v1::DeleteReportResponse*) {
  const auto until = EndOfWork(*context);
  return UnaryCall::Queue(environment_, environment_.feedback_pool, Method::kDeleteReport, *context,
                          *request, [this, request, until](const std::shared_ptr<Interrupter>&) {
                            return feedback_.Delete(request->name(), until);
                          });
}

grpc::ServerUnaryReactor* FeedbackServiceImpl::ListCorrections(
    grpc::CallbackServerContext* context, const v1::ListCorrectionsRequest* request,
    v1::ListCorrectionsResponse* response) {
  const auto until = EndOfWork(*context);
  return UnaryCall::Queue(environment_, environment_.feedback_pool, Method::kListCorrections,
                          *context, *request,
                          [this, response, until](const std::shared_ptr<Interrupter>&) {
                            *response = feedback_.Corrections(until);
                            return absl::OkStatus();
                          });
}

}  // namespace hapmoe::server
