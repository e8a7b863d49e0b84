// Profiles as reports of measured iterations correct them, and predictions by them.
#ifndef HAPMOE_SERVER_PLANNING_CORRECTIONS_H_
#define HAPMOE_SERVER_PLANNING_CORRECTIONS_H_

#include <map>
#include <memory>
#include <string>

#include "core/cost/prediction.h"
#include "core/feedback/calibration.h"
#include "core/plan/plan.h"
#include "core/profile/accelerator_profile.h"
#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/plan.pb.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// What reports say of the profiles of one catalog. Immutable.
struct CorrectedProfiles {
  struct Type {
    std::shared_ptr<const profile::AcceleratorProfile> corrected;
    feedback::TypeCalibration calibration;
  };
  // By the profile as it is without reports; types without any are left out.
  std::map<std::shared_ptr<const profile::AcceleratorProfile>, Type> types;
};

// Where corrections come from. Thread safe.
class CorrectionsSource {
 public:
  virtual ~CorrectionsSource() = default;

  // Never null, and at once: where profiles changed a moment ago, those are without corrections.
  virtual std::shared_ptr<const CorrectedProfiles> Current(const ProfileCatalog& catalog) = 0;

  // Keeps what was planned for a while, so that a report can name it by its plan_id alone. `ran`
  // holds the job, the cluster and either the plan or the world size of the job's own layout.
  virtual void Remember(const std::string& plan_id, v1::IterationReport ran) = 0;
};

struct ReadProblem;

// Puts corrected profiles in place of those of the problem. `corrections` may be null.
void Correct(std::shared_ptr<const CorrectedProfiles> corrections, ReadProblem& read);

// A prediction of a plan of the problem for the wire. Where the problem's profiles are corrected,
// its band is as wide as reports leave it, and it says what it would be without them.
v1::Prediction CorrectedToWire(const ReadProblem& read, const plan::Plan& plan,
                               cost::Prediction prediction);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_CORRECTIONS_H_
