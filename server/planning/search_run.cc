#include "server/planning/search_run.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/search/certificate.h"
#include "server/log/log.h"

namespace hapmoe::server {
namespace {

// Lets no plan out that does not stand up to a check of its own. A failure is a fault of ours: the
// log tells it, and callers an internal fault.
absl::Status Certified(absl::Status status, absl::string_view what) {
  if (!status.ok()) {
    LogLine(Severity::kError, "certificate_failed")
        .Add("of", what)
        .Add("message", status.message());
  }
  return status;
}

}  // namespace

bool CertifiedPlan(const search::SearchRequest& request, const search::Costed& plan) {
  if (request.constraints.engine == plan.plan.engine) {
    return Certified(search::CheckPlan(request, plan), "incumbent").ok();
  }
  search::SearchRequest one = request;  // Any engine: that of the space being searched.
  one.constraints.engine = plan.plan.engine;
  return Certified(search::CheckPlan(one, plan), "incumbent").ok();
}

bool CertifiedOutcome(const search::SearchRequest& request, const search::Outcome& outcome) {
  bool certified = !outcome.best.has_value() || CertifiedPlan(request, *outcome.best);
  if (outcome.uniform.has_value()) {
    certified = certified && CertifiedPlan(request, *outcome.uniform);
  }
  for (const search::Costed& alternative : outcome.alternatives) {
    certified = certified && CertifiedPlan(request, alternative);
  }
  return certified;
}

absl::StatusOr<search::Outcome> SearchRun::Search(
    const search::SearchRequest& request,
    absl::FunctionRef<void(const search::Progress&)> progress) {
  const int64_t start = ThreadCpuNanoseconds();
  absl::StatusOr<search::Outcome> outcome =
      solver_.Search(request, executor_, *interrupter_, progress);
  search_nanoseconds_ += ThreadCpuNanoseconds() - start;
  search_wall_end_ = Clock::now();
  if (interrupter_->cause() == Interrupter::Cause::kCancelled) {
    // What it found at the last moment is for nobody, and takes longer to tell than to find.
    search::Outcome nothing;
    nothing.termination.limit = search::Limit::kCancelled;
    return nothing;
  }
  if (outcome.ok()) {
    HAPMOE_RETURN_IF_ERROR(Certified(search::CheckOutcome(request, *outcome), "answer"));
  }
  return outcome;
}

}  // namespace hapmoe::server
