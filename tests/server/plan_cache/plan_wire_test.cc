#include "server/plan_cache/plan_wire.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

// Bytes of a request that has some of the fields of another.
template <typename Keep>
std::string BytesOf(v1::PlanRequest request, Keep keep) {
  keep(request);
  return request.SerializeAsString();
}

TEST(PlanWire, TellsWhatIsAskedFromWhatTheCallSays) {
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_launch()->set_scheduler("slurm");
  request.set_cache_policy(v1::CACHE_POLICY_DO_NOT_STORE);
  const std::string bytes = request.SerializeAsString();
  PlanWire wire;
  ASSERT_TRUE(ReadPlanWire(bytes, wire));
  EXPECT_EQ(wire.request_id, "test");
  EXPECT_EQ(wire.policy, v1::CACHE_POLICY_DO_NOT_STORE);
  EXPECT_EQ(std::string(wire.asked), BytesOf(request, [](auto& r) {
              r.clear_request_id();
              r.clear_cache_policy();
            }));
  EXPECT_TRUE(wire.joined.empty());  // Nothing was copied.
}

TEST(PlanWire, FieldsMayComeInAnyOrderAndTwice) {
  v1::PlanRequest problem;
  *problem.mutable_problem() = SmallPlanRequest().problem();
  v1::PlanRequest launch;
  launch.mutable_launch()->set_scheduler("slurm");
  v1::PlanRequest first;
  first.set_request_id("first");
  v1::PlanRequest last;
  last.set_request_id("last");
  last.set_cache_policy(v1::CACHE_POLICY_BYPASS);
  const std::string bytes = first.SerializeAsString() + problem.SerializeAsString() +
                            last.SerializeAsString() + launch.SerializeAsString() +
                            first.SerializeAsString() + launch.SerializeAsString() +
                            last.SerializeAsString();
  PlanWire wire;
  ASSERT_TRUE(ReadPlanWire(bytes, wire));
  EXPECT_EQ(wire.request_id, "last");  // As a parser reads it.
  EXPECT_EQ(wire.policy, v1::CACHE_POLICY_BYPASS);
  EXPECT_EQ(std::string(wire.asked),
            problem.SerializeAsString() + launch.SerializeAsString() + launch.SerializeAsString());
}

TEST(PlanWire, UnknownFieldsAreAskedToo) {
  v1::PlanRequest request = SmallPlanRequest();
  request.clear_request_id();
  auto* unknown = request.GetReflection()->MutableUnknownFields(&request);
  unknown->AddVarint(1000, 7);
  unknown->AddFixed32(1001, 7);
  unknown->AddFixed64(1002, 7);
  const std::string bytes = request.SerializeAsString();
  PlanWire wire;
  ASSERT_TRUE(ReadPlanWire(bytes, wire));
  EXPECT_EQ(std::string(wire.asked), bytes);
}

TEST(PlanWire, NothingIsReadBeyondTheEnd) {
  v1::PlanRequest request = SmallPlanRequest();
  request.set_cache_policy(v1::CACHE_POLICY_USE);
  const std::string bytes = request.SerializeAsString();
  int readable = 0;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const std::string cut(bytes, 0, size);  // Its own memory, for AddressSanitizer.
    PlanWire wire;
    readable += ReadPlanWire(cut, wire) ? 1 : 0;
  }
  EXPECT_EQ(readable, 4);  // Nothing, and after each of the three fields.
  for (const char* bad : {"\x0b", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    PlanWire wire;
    EXPECT_FALSE(ReadPlanWire(bad, wire));
  }
}

TEST(ResponseHead, MakesAResponseTogetherWithAnAnswer) {
  v1::PlanAnswer answer;
  for (int i = 0; i < 100; ++i) answer.add_notes("A note that makes it long.");
  v1::PlanResponse kept;
  *kept.mutable_answer() = answer;
  const std::string bytes = kept.SerializeAsString();
  for (const std::string& id : {std::string(), std::string("id"), std::string(128, 'x')}) {
    v1::PlanResponse expected = kept;
    expected.set_request_id(id);
    expected.set_source(v1::ANSWER_SOURCE_CACHE);
    v1::PlanResponse response;
    ASSERT_TRUE(response.ParseFromString(ResponseHead(id, v1::ANSWER_SOURCE_CACHE) + bytes));
    EXPECT_EQ(response.SerializeAsString(), expected.SerializeAsString());
  }
}

}  // namespace
}  // namespace hapmoe::server
