#include <optional>
#include <string>

#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/plan_cache/canonical_request.h"
#include "server/plan_cache/plan_wire.h"
#include "server/planning/problem_reader.h"
#include "server/wire/from_wire.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/targets.h"
#include "tests/server/testing/built_in.h"

namespace hapmoe::fuzz {
namespace {

struct World {
  std::unique_ptr<server::ProfileStore> profiles = server::BuiltInProfiles();
  server::EngineCatalog engines = server::BuiltInEngines();
  server::SchedulerCatalog schedulers = server::BuiltInSchedulers();
};

const World& BuiltIn() {
  static const auto* const world = new World;
  return *world;
}

class Silent : public google::protobuf::io::ErrorCollector {
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

void ReadPlanRequests(absl::string_view input) {
  v1::PlanRequest request;
  google::protobuf::TextFormat::Parser parser;
  Silent silent;
  parser.RecordErrorsTo(&silent);
  if (!parser.ParseFromString(std::string(input), &request)) return;
  const World& world = BuiltIn();
  const auto catalog = world.profiles->catalog();
  const auto read = server::ReadPlanRequest(request.request_id(), request.problem(), *catalog,
                                            world.engines, {&request.launch(), &world.schedulers});
  // A request is the caller's fault, or to be planned.
  Expect(read.ok() || absl::IsInvalidArgument(read.status()) || absl::IsNotFound(read.status()));
}

void ReadPlanBytes(absl::string_view input) {
  server::PlanWire wire;
  v1::PlanRequest request;
  const bool split = server::ReadPlanWire(input, wire);
  if (!request.ParseFromArray(input.data(), static_cast<int>(input.size())) || !split) return;
  // The parts are those that a parser sees.
  Expect(wire.request_id == request.request_id());
  Expect(wire.policy == request.cache_policy());
  v1::PlanRequest asked;
  Expect(asked.ParseFromArray(wire.asked.data(), static_cast<int>(wire.asked.size())));
  const std::string form = server::CanonicalForm(request, "1");
  Expect(server::CanonicalForm(asked, "1") == form);
  // The form of a form is itself.
  const std::optional<v1::PlanRequest> canonical = server::RequestOf<v1::PlanRequest>(form);
  Expect(canonical.has_value() && server::CanonicalForm(*canonical, "1") == form);
}

void ReadProfile(absl::string_view input) {
  v1::AcceleratorProfile wire;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  if (!google::protobuf::util::JsonStringToMessage(std::string(input), &wire, options).ok()) return;
  Violations violations;
  (void)server::ProfileFromWire(wire, violations);
}

}  // namespace hapmoe::fuzz
