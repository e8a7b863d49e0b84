#include "server/plan_cache/plan_desk.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/errors/errors.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using Clock = std::chrono::steady_clock;

// Of the bytes of all answers, those that are kept by their request's id.
constexpr size_t kRequestIdShare = 8;

// What a policy lets a call do.
struct Policy {
  bool known = true;
  bool takes = true;   // A kept answer, or part in a search.
  bool leaves = true;  // Its answer.
};

Policy PolicyOf(v1::CachePolicy wire) {
  switch (wire) {
    case v1::CACHE_POLICY_UNSPECIFIED:
    case v1::CACHE_POLICY_USE:
      return {};
    case v1::CACHE_POLICY_BYPASS_LOOKUP:
      return {true, false, true};
    case v1::CACHE_POLICY_DO_NOT_STORE:
      return {true, true, false};
    case v1::CACHE_POLICY_BYPASS:
      return {true, false, false};
    default:
      return {false, false, false};
  }
}

PlanReply Refusal(const absl::Status& status) { return {MakeKeptFailure(status)}; }

PlanReply RequestIdTaken(absl::string_view id) {
  return Refusal(InvalidError(
      Reason::kRequestInvalid,
      {{"request_id_not_reused", "request_id",
        absl::StrCat("Another request has the id \"", id,
                     "\", and has it for some minutes yet. Every request needs one of its own; to "
                     "ask again as before, ask the same.")}}));
}

PlanReply PolicyUnknown(v1::CachePolicy policy) {
  return Refusal(
      InvalidError(Reason::kRequestInvalid,
                   {{"cache_policy_known", "cache_policy",
                     absl::StrCat("Policy ", static_cast<int>(policy), " is not known.")}}));
}

// Ids of one kind of request are apart from those of others.
std::string IdKey(AnswerKind kind, absl::string_view id) {
  if (id.empty()) return "";
  return absl::StrCat(static_cast<int>(kind), " ", id);
}

const v1::LaunchOptions& LaunchOf(const v1::PlanRequest& request) { return request.launch(); }
template <typename Request>
const v1::LaunchOptions& LaunchOf(const Request&) {
  return v1::LaunchOptions::default_instance();
}

// What was planned, of the plan of this id that an answer shows. Takes it out of its arguments.
v1::IterationReport ReportOf(v1::Problem& problem, v1::PlanAnswer& answer,
                             const std::string& plan_id) {
  v1::IterationReport ran;
  ran.mutable_job()->Swap(problem.mutable_job());
  ran.mutable_cluster()->Swap(problem.mutable_cluster());
  const auto take = [&](v1::ExecutionPlan* plan) {
    if (plan->plan_id() == plan_id) ran.mutable_plan()->Swap(plan);
  };
  take(answer.mutable_plan());
  if (answer.has_uniform()) take(answer.mutable_uniform()->mutable_plan());
  for (v1::Alternative& alternative : *answer.mutable_alternatives()) {
    take(alternative.mutable_plan());
  }
  return ran;
}

}  // namespace

// A request without a fault that is not answered yet. Gives back its id when it ends.
class PlanDesk::Order {
 public:
  Order(std::shared_ptr<RequestIds> ids, std::string id, RequestIdentity of)
      : identity(std::move(of)), ids_(std::move(ids)), id_(std::move(id)) {}
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;
  ~Order() {
    if (holds_id_) ids_->Settle(id_, identity, nullptr, Clock::now());
  }

  // The id is this request's while the call is under way.
  RequestIds::Claim Claim(bool anew, const NumberedView& now) {
    RequestIds::Claim claim = ids_->Begin(id_, identity, anew, now, Clock::now());
    holds_id_ = claim.verdict == RequestIds::Verdict::kFirst;
    return claim;
  }
  void Answered(const KeptAnswerPtr& answer) {
    if (!std::exchange(holds_id_, false)) return;
    ids_->Settle(id_, identity, answer->status.ok() ? answer : nullptr, Clock::now());
  }

  const RequestIdentity identity;
  Policy policy;
  std::string asked;
  ReadQuestion read;
  NumberedView view;

 private:
  const std::shared_ptr<RequestIds> ids_;
  const std::string id_;
  bool holds_id_ = false;
};

PlanDesk::PlanDesk(const Planner& planner, ThreadPool& search_pool, ThreadPool& light_pool,
                   DeadlineTimer& timer, const Options& options, Listener* listener)
    : planner_(planner),
      light_pool_(light_pool),
      planner_version_(options.planner_version),
      listener_(listener),
      cache_(
          std::make_shared<PlanCache>(options.most_bytes - options.most_bytes / kRequestIdShare)),
      request_ids_(std::make_shared<RequestIds>(
          RequestIds::Options{options.most_bytes / kRequestIdShare, options.request_id_window})),
      flights_(std::make_shared<Flights>(
          search_pool, light_pool, timer, options.flights,
          [cache = cache_](const Flights::Order& order, const KeptAnswerPtr& answer) {
            cache->Store(order.identity, order.asked, answer);
          },
          listener)) {}

NumberedView PlanDesk::Now() {
  ProfileView view = planner_.View();
  NumberedView now;
  bool changed = false;
  {
    MutexLock lock(view_mutex_);
    if (!(view == view_.view)) {
      changed = view_.number > 0;
      view_ = {std::move(view), view_.number + 1};
    }
    now = view_;
  }
  if (changed && cache_->entries() > 0) {
    // What is refused now is dropped when the next change comes.
    (void)light_pool_.Submit([cache = cache_, now] { cache->DropStale(now); });
  }
  return now;
}

std::optional<PlanReply> PlanDesk::FromMemory(AnswerKind kind, const PlanWire& wire) {
  const Policy policy = PolicyOf(wire.policy);
  if (!policy.takes || !IsRequestId(wire.request_id)) return std::nullopt;
  const NumberedView now = Now();
  std::optional<PlanCache::Found> found = cache_->FindSpelling(kind, wire.asked, now);
  if (!found.has_value()) return std::nullopt;
  // That nothing fits leaves the id free, as any failure does.
  if (policy.leaves && found->answer->status.ok()) {
    RequestIds::Claim claim = request_ids_->Answer(IdKey(kind, wire.request_id), found->identity,
                                                   found->answer, now, Clock::now());
    if (claim.verdict == RequestIds::Verdict::kOther) return RequestIdTaken(wire.request_id);
    if (claim.verdict == RequestIds::Verdict::kAnswered) found->answer = std::move(claim.answer);
  }
  Told(Lookup::kHit);
  return PlanReply{std::move(found->answer), v1::ANSWER_SOURCE_CACHE};
}

absl::StatusOr<PlanDesk::ReadQuestion> PlanDesk::Read(const v1::PlanRequest& request,
                                                      const PlanBasis& basis,
                                                      const ProfileView& view) const {
  ReadQuestion read;
  HAPMOE_ASSIGN_OR_RETURN(
      read.plan, planner_.Prepare(request.request_id(), request.problem(), request.launch(), view));
  read.question = MakeQuestion(planner_, read.plan, basis, listener_);
  return read;
}

// Of Frontier and Explain.
template <typename Request>
absl::StatusOr<PlanDesk::ReadQuestion> PlanDesk::Read(const Request& request,
                                                      const PlanBasis& basis,
                                                      const ProfileView& view) const {
  HAPMOE_ASSIGN_OR_RETURN(auto prepared, planner_.Prepare(request, view));
  return ReadQuestion{MakeQuestion(planner_, std::move(prepared), basis, listener_), nullptr};
}

template <typename Request>
PlanDesk::Opened PlanDesk::OpenOrder(const Request& request, absl::string_view asked) {
  const Policy policy = PolicyOf(request.cache_policy());
  if (!policy.known) return {PolicyUnknown(request.cache_policy()), nullptr};
  const NumberedView now = Now();
  const PlanBasis basis(request.problem().cluster(), LaunchOf(request), now.view);
  absl::StatusOr<ReadQuestion> read = Read(request, basis, now.view);
  if (!read.ok()) return {Refusal(read.status()), nullptr};
  auto order = std::make_shared<Order>(request_ids_, IdKey(KindOf(request), request.request_id()),
                                       IdentityOf(request, planner_version_));
  order->policy = policy;
  if (policy.leaves) order->asked = std::string(asked);
  order->read = *std::move(read);
  order->view = now;
  if (policy.leaves) {
    RequestIds::Claim claim = order->Claim(/*anew=*/!policy.takes, now);
    if (claim.verdict == RequestIds::Verdict::kOther) {
      return {RequestIdTaken(request.request_id()), nullptr};
    }
    if (claim.verdict == RequestIds::Verdict::kAnswered) {
      Told(Lookup::kHit);
      return {PlanReply{std::move(claim.answer), v1::ANSWER_SOURCE_CACHE}, nullptr};
    }
  }
  if (policy.takes) {
    std::optional<PlanCache::Found> found = cache_->FindForm(order->identity, order->asked, now);
    if (found.has_value()) {
      order->Answered(found->answer);
      Told(Lookup::kHit);
      return {PlanReply{std::move(found->answer), v1::ANSWER_SOURCE_CACHE}, nullptr};
    }
  }
  return {std::nullopt, std::move(order)};
}

PlanDesk::Opened PlanDesk::Open(const v1::PlanRequest& request, absl::string_view asked) {
  return OpenOrder(request, asked);
}

template <typename Request>
void PlanDesk::Ask(Ticket ticket, const Request& request, absl::string_view asked, Caller caller) {
  Opened opened = OpenOrder(request, asked);
  if (opened.reply.has_value()) return caller.answer(*std::move(opened.reply));
  const std::shared_ptr<Order> order = std::move(opened.order);
  const Policy policy = order->policy;
  Flights::Order flight{order->identity, order->read.question, order->asked,
                        /*alone=*/!policy.takes};
  Flights::Waiter waiter;
  waiter.caller = std::move(caller.name);
  waiter.end = caller.end;
  waiter.budget = order->read.question->budget();
  waiter.store = policy.leaves;
  waiter.cancelled = std::move(caller.interrupter);
  waiter.answer = [order, answer = std::move(caller.answer)](KeptAnswerPtr kept,
                                                             v1::AnswerSource source) mutable {
    order->Answered(kept);
    answer({std::move(kept), source});
  };
  const auto recheck = [&]() -> KeptAnswerPtr {
    std::optional<PlanCache::Found> found =
        cache_->FindForm(order->identity, order->asked, order->view);
    return found.has_value() ? std::move(found->answer) : nullptr;
  };
  // Nothing of this is used when the caller was answered: the server may be gone by then.
  flights_->Join(ticket, std::move(flight), std::move(waiter), recheck,
                 [&](Flights::Boarded boarded) {
                   Told(!policy.takes                          ? Lookup::kBypassed
                        : boarded == Flights::Boarded::kShares ? Lookup::kShared
                        : boarded == Flights::Boarded::kKept   ? Lookup::kHit
                                                               : Lookup::kMiss);
                 });
}
template void PlanDesk::Ask(Ticket, const v1::PlanRequest&, absl::string_view, Caller);
template void PlanDesk::Ask(Ticket, const v1::FrontierRequest&, absl::string_view, Caller);
template void PlanDesk::Ask(Ticket, const v1::ExplainRequest&, absl::string_view, Caller);

KeptAnswerPtr PlanDesk::Search(Order& order, const std::shared_ptr<Interrupter>& interrupter,
                               PlanObserver* observer) {
  Told(order.policy.takes ? Lookup::kMiss : Lookup::kBypassed);
  const absl::StatusOr<v1::PlanAnswer> answer =
      planner_.Search(order.read.plan, order.read.question->budget(), interrupter, observer);
  // A search that was not stopped by then was not cut short either.
  const bool whole = !interrupter->tripped();
  if (listener_ != nullptr) listener_->OnSearched(answer);
  KeptAnswerPtr kept = MakeKeptAnswer(answer, order.read.question->basis());
  if (whole && order.policy.leaves && MayBeKept(kept->status)) {
    cache_->Store(order.identity, order.asked, kept);
  }
  order.Answered(kept);
  return kept;
}

std::optional<v1::IterationReport> PlanDesk::FindPlan(const std::string& plan_id) const {
  const std::optional<PlanCache::Found> found = cache_->FindPlan(plan_id);
  if (!found.has_value()) return std::nullopt;
  const KeptAnswer& kept = *found->answer;
  if (found->identity.kind == AnswerKind::kExplain) {
    std::optional<v1::ExplainRequest> request =
        RequestOf<v1::ExplainRequest>(*found->identity.form);
    v1::ExplainResponse response;
    if (!request.has_value() || !response.ParseFromString(kept.wire)) return std::nullopt;
    return ReportOf(*request->mutable_problem(), *response.mutable_best(), plan_id);
  }
  std::optional<v1::PlanRequest> request = RequestOf<v1::PlanRequest>(*found->identity.form);
  v1::PlanResponse response;
  if (!request.has_value() || !response.ParseFromString(kept.wire)) return std::nullopt;
  return ReportOf(*request->mutable_problem(), *response.mutable_answer(), plan_id);
}

}  // namespace hapmoe::server
