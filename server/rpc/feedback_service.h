// FeedbackService over gRPC: passes calls on and answers back.
#ifndef HAPMOE_SERVER_RPC_FEEDBACK_SERVICE_H_
#define HAPMOE_SERVER_RPC_FEEDBACK_SERVICE_H_

#include "hapmoe/v1/feedback.grpc.pb.h"
#include "server/feedback/feedback_store.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// Thread safe. No method blocks: what may wait for a fit goes to a pool, and waits no longer than
// the deadline allows.
class FeedbackServiceImpl : public v1::FeedbackService::CallbackService {
 public:
  // All must outlive the service.
  FeedbackServiceImpl(CallEnvironment& environment, FeedbackStore& feedback)
      : environment_(environment), feedback_(feedback) {}

  grpc::ServerUnaryReactor* ReportIteration(grpc::CallbackServerContext* context,
                                            const v1::ReportIterationRequest* request,
                                            v1::ReportIterationResponse* response) override;
  grpc::ServerUnaryReactor* ListReports(grpc::CallbackServerContext* context,
                                        const v1::ListReportsRequest* request,
                                        v1::ListReportsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteReport(grpc::CallbackServerContext* context,
                                         const v1::DeleteReportRequest* request,
                                         v1::DeleteReportResponse* response) override;
  grpc::ServerUnaryReactor* ListCorrections(grpc::CallbackServerContext* context,
                                            const v1::ListCorrectionsRequest* request,
                                            v1::ListCorrectionsResponse* response) override;

 private:
  CallEnvironment& environment_;
  FeedbackStore& feedback_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_FEEDBACK_SERVICE_H_
