// Where calls that search get their answers: from those that are kept, from a search that is under
// way, or from one of their own.
#ifndef HAPMOE_SERVER_PLAN_CACHE_PLAN_DESK_H_
#define HAPMOE_SERVER_PLAN_CACHE_PLAN_DESK_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "core/base/interrupter.h"
#include "core/base/mutex.h"
#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/plan_cache/flights.h"
#include "server/plan_cache/kept_answer.h"
#include "server/plan_cache/plan_cache.h"
#include "server/plan_cache/plan_wire.h"
#include "server/plan_cache/request_ids.h"
#include "server/planning/planner.h"

namespace hapmoe::server {

// How a call was served that asked for a search without a fault. kLookupNames follows.
enum class Lookup {
  kHit,       // An answer that was kept.
  kMiss,      // By a search of its own.
  kShared,    // By a search that another had begun.
  kBypassed,  // It asked for a search of its own.
};
inline constexpr absl::string_view kLookupNames[] = {"hit", "miss", "shared", "bypassed"};

struct PlanReply {
  KeptAnswerPtr answer;
  v1::AnswerSource source = v1::ANSWER_SOURCE_UNSPECIFIED;
};

// Thread safe.
class PlanDesk {
 public:
  using Ticket = Flights::Ticket;
  using TimePoint = Flights::TimePoint;

  // Thread safe, and quick.
  class Listener : public Flights::Listener, public Question::Listener {
   public:
    virtual void OnLookup(Lookup lookup) = 0;
  };

  struct Options {
    size_t most_bytes = size_t{64} << 20;  // Of all answers that are kept; 0: none is.
    std::string planner_version;           // Answers of another are never taken for this one's.
    std::chrono::nanoseconds request_id_window = std::chrono::minutes(10);
    Flights::Options flights;
  };

  // All must outlive this. `listener` may be null.
  PlanDesk(const Planner& planner, ThreadPool& search_pool, ThreadPool& light_pool,
           DeadlineTimer& timer, const Options& options, Listener* listener);
  // Waits for searches to end. No call may wait for one.
  ~PlanDesk() { flights_->End(); }

  // The answer to a request, if it is kept for one that was written like this. For any thread: it
  // takes microseconds.
  std::optional<PlanReply> FromMemory(AnswerKind kind, const PlanWire& wire);

  // Who asks.
  struct Caller {
    std::string name;                                // Queues are fair between names.
    TimePoint end = TimePoint::max();                // When it must be answered.
    std::shared_ptr<const Interrupter> interrupter;  // Tripped before Cancel. Never null.
    // Called once, by any thread.
    absl::AnyInvocable<void(PlanReply reply)> answer;
  };
  Ticket NewTicket() { return flights_->NewTicket(); }
  // Reads a request of Plan, Frontier or Explain, and answers now or when its search has ended.
  // Takes as long as reading does. `asked`: as in PlanWire, for FromMemory to know it by; may be
  // empty.
  template <typename Request>
  void Ask(Ticket ticket, const Request& request, absl::string_view asked, Caller caller);
  void Cancel(Ticket ticket) { flights_->Cancel(ticket); }

  // A call of StreamPlan, whose search is its own, in two steps: it reads the request and looks for
  // an answer ...
  class Order;
  struct Opened {
    std::optional<PlanReply> reply;  // Or:
    std::shared_ptr<Order> order;
  };
  Opened Open(const v1::PlanRequest& request, absl::string_view asked);
  // ... and searches, as Planner::Search does, where there is none.
  KeptAnswerPtr Search(Order& order, const std::shared_ptr<Interrupter>& interrupter,
                       PlanObserver* observer);

  // From now on nobody waits: searches that are shared end with what they have.
  void EndAll() { flights_->EndAll(); }

  // What was planned, of an answer that is kept and shows a plan of this id. Looks at every answer.
  std::optional<v1::IterationReport> FindPlan(const std::string& plan_id) const;

  const PlanCache& cache() const { return *cache_; }
  const RequestIds& request_ids() const { return *request_ids_; }
  const Flights& flights() const { return *flights_; }

 private:
  NumberedView Now();
  template <typename Request>
  Opened OpenOrder(const Request& request, absl::string_view asked);
  struct ReadQuestion {
    QuestionPtr question;
    std::shared_ptr<const PreparedPlan> plan;  // Null where it is no plan that is asked for.
  };
  absl::StatusOr<ReadQuestion> Read(const v1::PlanRequest& request, const PlanBasis& basis,
                                    const ProfileView& view) const;
  template <typename Request>
  absl::StatusOr<ReadQuestion> Read(const Request& request, const PlanBasis& basis,
                                    const ProfileView& view) const;
  void Told(Lookup lookup) {
    if (listener_ != nullptr) listener_->OnLookup(lookup);
  }

  const Planner& planner_;
  ThreadPool& light_pool_;
  const std::string planner_version_;
  Listener* const listener_;
  const std::shared_ptr<PlanCache> cache_;
  const std::shared_ptr<RequestIds> request_ids_;  // Orders may outlive this.
  Mutex view_mutex_;
  NumberedView view_ ABSL_GUARDED_BY(view_mutex_);  // The last one that was seen.
  const std::shared_ptr<Flights> flights_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_PLAN_DESK_H_
