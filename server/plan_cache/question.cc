#include "server/plan_cache/question.h"

#include <optional>
#include <utility>

namespace hapmoe::server {
namespace {

// How the planner is asked, and what is made of its response, for each kind of question.

struct PlanKind {
  using Prepared = PreparedPlan;
  using Response = v1::PlanAnswer;
  using PlannerObserver = PlanObserver;

  static const ReadProblem& ReadOf(const Prepared& prepared) { return prepared.read; }
  static void Remember(const Planner& planner, const Prepared& prepared, const Response& response) {
    planner.Remember(prepared.problem, response);
  }
  static void Tell(Question::Listener& listener, const absl::StatusOr<Response>& response) {
    listener.OnSearched(response);
  }
};

struct FrontierKind {
  using Prepared = PreparedFrontier;
  using Response = v1::FrontierResponse;
  using PlannerObserver = SoFarObserver<Response>;

  static const ReadProblem& ReadOf(const Prepared& prepared) { return prepared.read; }
  static void Remember(const Planner&, const Prepared&, const Response&) {}
  static void Tell(Question::Listener& listener, const absl::StatusOr<Response>& response) {
    if (!response.ok()) listener.OnSearched(response.status());
  }
};

struct ExplainKind {
  using Prepared = PreparedExplanation;
  using Response = v1::ExplainResponse;
  using PlannerObserver = SoFarObserver<Response>;

  static const ReadProblem& ReadOf(const Prepared& prepared) { return prepared.read.problem; }
  static void Remember(const Planner& planner, const Prepared& prepared, const Response& response) {
    planner.Remember(prepared.request, response);
  }
  static void Tell(Question::Listener& listener, const absl::StatusOr<Response>& response) {
    if (response.ok()) {
      listener.OnSearched(response->best());
    } else {
      listener.OnSearched(response.status());
    }
  }
};

// Those of PlanObserver that nobody who asks the desk is told of.
template <typename Base>
class Deaf : public Base {};
template <>
class Deaf<PlanObserver> : public PlanObserver {
 public:
  void OnProgress(const v1::Progress&) override {}
  void OnIncumbent(v1::PlanAnswer) override {}
  bool WantsIncumbents() const override { return false; }
};

template <typename Kind>
class QuestionOf : public Question {
 public:
  using Prepared = std::shared_ptr<const typename Kind::Prepared>;
  using Response = typename Kind::Response;

  QuestionOf(const Planner& planner, Prepared prepared, PlanBasis basis, Listener* listener)
      : planner_(planner),
        prepared_(std::move(prepared)),
        basis_(std::move(basis)),
        listener_(listener) {}

  KeptAnswerPtr Answer(const std::shared_ptr<Interrupter>& interrupter,
                       Observer& observer) const override {
    Relay relay(*this, observer);
    const absl::StatusOr<Response> response =
        planner_.Search(prepared_, std::nullopt, interrupter, &relay);
    if (listener_ != nullptr) Kind::Tell(*listener_, response);
    return MakeKeptAnswer(response, basis_);
  }

  std::chrono::nanoseconds budget() const override {
    return planner_.BudgetOf(Kind::ReadOf(*prepared_));
  }
  const PlanBasis& basis() const override { return basis_; }

 private:
  // Passes on what the planner tells, as answers.
  class Relay : public Deaf<typename Kind::PlannerObserver> {
   public:
    Relay(const QuestionOf& question, Observer& observer)
        : question_(question), observer_(observer) {}

    bool WantsSoFar() const override { return observer_.WantsSoFar(); }
    void OnSoFar(const std::function<absl::StatusOr<Response>()>& build) override {
      observer_.OnSoFar([build, &planner = question_.planner_, prepared = question_.prepared_,
                         basis = question_.basis_] {
        const absl::StatusOr<Response> built = build();
        if (built.ok()) Kind::Remember(planner, *prepared, *built);
        return MakeKeptAnswer(built, basis);
      });
    }

   private:
    const QuestionOf& question_;
    Observer& observer_;
  };

  const Planner& planner_;
  const Prepared prepared_;
  const PlanBasis basis_;
  Listener* const listener_;
};

}  // namespace

QuestionPtr MakeQuestion(const Planner& planner, std::shared_ptr<const PreparedPlan> prepared,
                         PlanBasis basis, Question::Listener* listener) {
  return std::make_shared<QuestionOf<PlanKind>>(planner, std::move(prepared), std::move(basis),
                                                listener);
}

QuestionPtr MakeQuestion(const Planner& planner, std::shared_ptr<const PreparedFrontier> prepared,
                         PlanBasis basis, Question::Listener* listener) {
  return std::make_shared<QuestionOf<FrontierKind>>(planner, std::move(prepared), std::move(basis),
                                                    listener);
}

QuestionPtr MakeQuestion(const Planner& planner,
                         std::shared_ptr<const PreparedExplanation> prepared, PlanBasis basis,
                         Question::Listener* listener) {
  return std::make_shared<QuestionOf<ExplainKind>>(planner, std::move(prepared), std::move(basis),
                                                   listener);
}

}  // namespace hapmoe::server
