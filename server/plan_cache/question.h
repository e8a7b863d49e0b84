// What a call asks of the planner, read and without faults: something to be searched for.
#ifndef HAPMOE_SERVER_PLAN_CACHE_QUESTION_H_
#define HAPMOE_SERVER_PLAN_CACHE_QUESTION_H_

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/plan_cache/kept_answer.h"
#include "server/planning/plan_basis.h"
#include "server/planning/planner.h"

namespace hapmoe::server {

// Immutable: thread safe.
class Question {
 public:
  // The answer of a call whose time ends now. Takes as long as building an answer does; may be
  // called by any thread, and outlives the search.
  using SoFar = std::function<KeptAnswerPtr()>;

  // Told while the question is searched for, from one thread at a time; must return soon.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual bool WantsSoFar() const = 0;  // Whether OnSoFar is of use now. Any thread.
    virtual void OnSoFar(const SoFar& build) = 0;
  };

  // What is told of searches. Thread safe, and quick.
  class Listener {
   public:
    virtual ~Listener() = default;
    // A plan that was searched for, or why a search came to nothing.
    virtual void OnSearched(const absl::StatusOr<v1::PlanAnswer>& answer) = 0;
  };

  virtual ~Question() = default;

  // Searches on the calling thread until the interrupter trips. `observer` must outlive the call.
  virtual KeptAnswerPtr Answer(const std::shared_ptr<Interrupter>& interrupter,
                               Observer& observer) const = 0;

  // The time that the search may take, which the caller keeps.
  virtual std::chrono::nanoseconds budget() const = 0;

  virtual const PlanBasis& basis() const = 0;
};
using QuestionPtr = std::shared_ptr<const Question>;

// Questions of what was prepared. `planner`, and `listener` unless it is null, must outlive them.
QuestionPtr MakeQuestion(const Planner& planner, std::shared_ptr<const PreparedPlan> prepared,
                         PlanBasis basis, Question::Listener* listener);
QuestionPtr MakeQuestion(const Planner& planner, std::shared_ptr<const PreparedFrontier> prepared,
                         PlanBasis basis, Question::Listener* listener);
QuestionPtr MakeQuestion(const Planner& planner,
                         std::shared_ptr<const PreparedExplanation> prepared, PlanBasis basis,
                         Question::Listener* listener);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_QUESTION_H_
