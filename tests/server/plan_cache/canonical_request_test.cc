// Which requests are one, and that no others are.
#include "server/plan_cache/canonical_request.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kVersion[] = "1";

std::string Form(const v1::PlanRequest& request) { return CanonicalForm(request, kVersion); }

// Gives a field, or a new element of it, a value that is the default of nothing.
void SetField(Message& message, const FieldDescriptor& field, int& next);

// Sets every field, with two elements where there may be any number.
void Fill(Message& message, int& next) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SetField(message, field, next);
    if (field.is_repeated()) SetField(message, field, next);
  }
}

void SetField(Message& message, const FieldDescriptor& field, int& next) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  const int number = ++next;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(many ? *reflection.AddMessage(&message, &field)
                       : *reflection.MutableMessage(&message, &field),
                  next);
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = "text" + std::to_string(number);
      return many ? reflection.AddString(&message, &field, text)
                  : reflection.SetString(&message, &field, text);
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? reflection.AddInt32(&message, &field, number)
                  : reflection.SetInt32(&message, &field, number);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? reflection.AddInt64(&message, &field, number)
                  : reflection.SetInt64(&message, &field, number);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? reflection.AddUInt32(&message, &field, number)
                  : reflection.SetUInt32(&message, &field, number);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? reflection.AddDouble(&message, &field, number)
                  : reflection.SetDouble(&message, &field, number);
    case FieldDescriptor::CPPTYPE_BOOL:
      ASSERT_FALSE(many) << field.full_name();
      return reflection.SetBool(&message, &field, true);
    case FieldDescriptor::CPPTYPE_ENUM: {
      ASSERT_FALSE(many) << field.full_name();
      const auto& values = *field.enum_type();
      return reflection.SetEnum(&message, &field, values.value(values.value_count() - 1));
    }
    default:
      FAIL() << field.full_name() << " is of a type that this test does not know";
  }
}

// Changes one value, which SetField gave.
void ChangeField(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? reflection.SetRepeatedString(&message, &field, 0, "changed")
                  : reflection.SetString(&message, &field, "changed");
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? reflection.SetRepeatedInt32(&message, &field, 0, -7)
                  : reflection.SetInt32(&message, &field, -7);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? reflection.SetRepeatedInt64(&message, &field, 0, -7)
                  : reflection.SetInt64(&message, &field, -7);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? reflection.SetRepeatedUInt32(&message, &field, 0, 7)
                  : reflection.SetUInt32(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? reflection.SetRepeatedDouble(&message, &field, 0, -7.5)
                  : reflection.SetDouble(&message, &field, -7.5);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, false);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto& values = *field.enum_type();
      return reflection.SetEnum(&message, &field, values.value(values.value_count() - 2));
    }
    default:
      FAIL() << field.full_name();
  }
}

using Visit = std::function<void(const std::string& path)>;

// Calls `visit` with every change of one field of `part`, a part of the request, in turn.
void ForEachChange(Message& part, const std::string& prefix, const Visit& visit) {
  const google::protobuf::Descriptor& type = *part.GetDescriptor();
  const Reflection& reflection = *part.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = prefix + field.name();
    const std::unique_ptr<Message> before(part.New());
    before->CopyFrom(part);
    if (field.is_map()) {
      for (const char* side : {"key", "value"}) {
        Message& entry = *reflection.MutableRepeatedMessage(&part, &field, 0);
        ChangeField(entry, *entry.GetDescriptor()->FindFieldByName(side));
        visit(path + " changed in a " + side);
        part.CopyFrom(*before);
      }
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message& within = field.is_repeated() ? *reflection.MutableRepeatedMessage(&part, &field, 0)
                                            : *reflection.MutableMessage(&part, &field);
      ForEachChange(within, path + ".", visit);
    } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL || field.has_presence()) {
      ChangeField(part, field);  // Otherwise that is the same as to clear it.
      visit(path + " changed");
      part.CopyFrom(*before);
    }
    reflection.ClearField(&part, &field);
    visit(path + " cleared");
    part.CopyFrom(*before);
    if (!field.is_repeated()) continue;
    reflection.RemoveLast(&part, &field);
    visit(path + " shortened");
    part.CopyFrom(*before);
  }
}

// Fields that no answer depends on. Nothing else may be left out, whatever fields are added.
bool LeftOut(const std::string& path) {
  for (const char* field : {"request_id", "cache_policy", "problem.constraints.time_budget"}) {
    if (path.rfind(field, 0) == 0) return true;
  }
  return false;
}

TEST(CanonicalRequest, EveryChangeOfEveryFieldMakesAnotherRequest) {
  v1::PlanRequest request;
  int next = 10;
  Fill(request, next);
  const std::string form = Form(request);
  std::set<std::string> forms = {form};
  int changes = 0;
  ForEachChange(request, "", [&](const std::string& path) {
    ++changes;
    if (LeftOut(path)) {
      EXPECT_EQ(Form(request), form) << path;
    } else {
      EXPECT_TRUE(forms.insert(Form(request)).second) << path;
    }
  });
  EXPECT_GT(changes, 250);  // It is the whole request that was walked.
}

TEST(CanonicalRequest, WhatThisVersionDoesNotKnowCounts) {
  v1::PlanRequest request = SmallPlanRequest();
  const std::string form = Form(request);
  v1::Pool& pool = *request.mutable_problem()->mutable_cluster()->mutable_pools(0);
  pool.GetReflection()->MutableUnknownFields(&pool)->AddVarint(1000, 1);
  EXPECT_NE(Form(request), form);
}

TEST(CanonicalRequest, AnotherPlannerAnswersAnotherRequest) {
  EXPECT_NE(CanonicalForm(SmallPlanRequest(), "1"), CanonicalForm(SmallPlanRequest(), "2"));
}

// A request, and another way to write it.
struct Spelling {
  const char* name;
  std::function<void(v1::PlanRequest&)> one;
  std::function<void(v1::PlanRequest&)> other;
};

v1::Constraints& ConstraintsOf(v1::PlanRequest& request) {
  return *request.mutable_problem()->mutable_constraints();
}
v1::Cluster& ClusterOf(v1::PlanRequest& request) {
  return *request.mutable_problem()->mutable_cluster();
}
v1::Job& JobOf(v1::PlanRequest& request) { return *request.mutable_problem()->mutable_job(); }

// Two pools, with a link between them.
void AddPool(v1::PlanRequest& request, const char* name, const char* accelerator) {
  v1::Pool& pool = *ClusterOf(request).add_pools();
  pool.set_name(name);
  pool.set_accelerator(accelerator);
  pool.set_nodes(1);
}
void AddLink(v1::PlanRequest& request, const char* a, const char* b, double bytes_per_second) {
  v1::Link& link = *ClusterOf(request).add_links();
  link.add_between(a);
  link.add_between(b);
  link.set_bytes_per_second(bytes_per_second);
}

const std::vector<Spelling>& Spellings() {
  static const auto& spellings = *new std::vector<Spelling>{
      {"engine", [](auto&) {}, [](auto& r) { ConstraintsOf(r).set_engine("megatron-lm"); }},
      {"headroom", [](auto&) {}, [](auto& r) { ConstraintsOf(r).set_memory_headroom_ratio(0.05); }},
      {"entry", [](auto&) {}, [](auto& r) { JobOf(r).set_entry("pretrain_gpt.py"); }},
      {"quantile", [](auto&) {}, [](auto& r) { JobOf(r).set_imbalance_quantile(0.99); }},
      {"objective", [](auto&) {},
       [](auto& r) {
         r.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_TIME);
       }},
      {"empty objective", [](auto&) {}, [](auto& r) { r.mutable_problem()->mutable_objective(); }},
      {"empty prunings", [](auto&) {}, [](auto& r) { ConstraintsOf(r).mutable_prunings(); }},
      {"empty launch", [](auto&) {}, [](auto& r) { r.mutable_launch(); }},
      {"empty network", [](auto&) {},
       [](auto& r) { ClusterOf(r).mutable_pools(0)->mutable_network(); }},
      {"accelerators of a node", [](auto&) {},
       [](auto& r) { ClusterOf(r).mutable_pools(0)->set_accelerators_per_node(8); }},
      {"accelerators of a node by devices",
       [](auto& r) {
         for (int i = 0; i < 4; ++i) ClusterOf(r).mutable_pools(0)->add_devices(i);
         ClusterOf(r).mutable_pools(0)->add_hosts("a");
         ClusterOf(r).mutable_pools(0)->clear_nodes();
       },
       [](auto& r) {
         for (int i = 0; i < 4; ++i) ClusterOf(r).mutable_pools(0)->add_devices(i);
         ClusterOf(r).mutable_pools(0)->add_hosts("a");
         ClusterOf(r).mutable_pools(0)->clear_nodes();
         ClusterOf(r).mutable_pools(0)->set_accelerators_per_node(4);
       }},
      {"order of degrees",
       [](auto& r) {
         for (int tp : {1, 2, 4}) ConstraintsOf(r).add_tp(tp);
       },
       [](auto& r) {
         for (int tp : {4, 1, 2, 4}) ConstraintsOf(r).add_tp(tp);
       }},
      {"order of micro-batches and stages",
       [](auto& r) {
         for (int size : {1, 2, 4}) ConstraintsOf(r).add_micro_batch_size(size);
         for (int pp : {1, 2, 4}) ConstraintsOf(r).add_pp(pp);
         for (int vp : {1, 2}) ConstraintsOf(r).add_virtual_stages(vp);
       },
       [](auto& r) {
         for (int size : {2, 4, 1, 1}) ConstraintsOf(r).add_micro_batch_size(size);
         for (int pp : {4, 2, 1}) ConstraintsOf(r).add_pp(pp);
         for (int vp : {2, 1}) ConstraintsOf(r).add_virtual_stages(vp);
       }},
      {"order of dispatchers",
       [](auto& r) {
         for (const char* d : {"allgather", "alltoall"}) ConstraintsOf(r).add_token_dispatcher(d);
       },
       [](auto& r) {
         for (const char* d : {"alltoall", "allgather"}) ConstraintsOf(r).add_token_dispatcher(d);
       }},
      {"what nothing fits is told of in order",
       [](auto& r) {
         for (int dp : {3, 5, 7}) ConstraintsOf(r).add_dp(dp);
       },
       [](auto& r) {
         for (int dp : {7, 3, 5, 5}) ConstraintsOf(r).add_dp(dp);
       }},
      {"order of links and of their sides",
       [](auto& r) {
         AddPool(r, "b", "A100-SXM-80GB");
         AddPool(r, "c", "A100-SXM-80GB");
         AddLink(r, "pool", "b", 1e9);
         AddLink(r, "b", "c", 2e9);
       },
       [](auto& r) {
         AddPool(r, "b", "A100-SXM-80GB");
         AddPool(r, "c", "A100-SXM-80GB");
         AddLink(r, "c", "b", 2e9);
         AddLink(r, "b", "pool", 1e9);
       }},
      {"what logs and limits are for", [](auto&) {},
       [](auto& r) {
         r.set_request_id("another");
         r.set_cache_policy(v1::CACHE_POLICY_BYPASS);
         ConstraintsOf(r).mutable_time_budget()->set_seconds(20);
       }},
  };
  return spellings;
}

// An answer without what differs between two searches for the same.
std::string Shown(absl::StatusOr<v1::PlanAnswer> answer) {
  if (!answer.ok()) {
    std::string text(answer.status().message());
    answer.status().ForEachPayload([&text](absl::string_view type, const absl::Cord& detail) {
      // Others hold maps, which have no order.
      if (absl::EndsWith(type, "SuggestedChanges")) text += std::string(detail);
    });
    return text;
  }
  v1::SearchStatistics& statistics = *answer->mutable_termination()->mutable_statistics();
  statistics.clear_search_cpu_seconds();
  statistics.clear_total_cpu_seconds();
  statistics.clear_search_wall_seconds();
  return answer->SerializeAsString();
}

TEST(CanonicalRequest, SpellingsOfOneRequestHaveOneFormAndOneAnswer) {
  for (const Spelling& spelling : Spellings()) {
    SCOPED_TRACE(spelling.name);
    v1::PlanRequest one = SmallPlanRequest();
    v1::PlanRequest other = SmallPlanRequest();
    spelling.one(one);
    spelling.other(other);
    EXPECT_EQ(Form(one), Form(other));
    // What makes it right: they are answered alike, byte for byte.
    PlannerFixture fixture;
    const std::string answer = Shown(fixture.Plan(one));
    EXPECT_GT(answer.size(), 100u);
    EXPECT_EQ(answer, Shown(fixture.Plan(other)));
    // The form is a request with that answer too.
    const auto written = RequestOf<v1::PlanRequest>(Form(one));
    ASSERT_TRUE(written.has_value());
    EXPECT_EQ(answer, Shown(fixture.Plan(*written)));
    EXPECT_EQ(Form(*written), Form(one));
  }
}

TEST(CanonicalRequest, OrderCountsWhereItReachesTheAnswer) {
  // Of arguments: the launcher repeats them as they are.
  v1::PlanRequest request = SmallPlanRequest();
  const std::string form = Form(request);
  auto& arguments = *JobOf(request).mutable_megatron_args();
  arguments.SwapElements(arguments.size() - 1, arguments.size() - 1 - 2);
  EXPECT_NE(Form(request), form);
  // Of pools and hosts: nodes are numbered in their order.
  v1::PlanRequest pools = SmallPlanRequest();
  AddPool(pools, "b", "A100-SXM-80GB");
  const std::string in_order = Form(pools);
  ClusterOf(pools).mutable_pools()->SwapElements(0, 1);
  EXPECT_NE(Form(pools), in_order);
  v1::PlanRequest hosts = SmallPlanRequest();
  for (const char* host : {"a", "b"}) ClusterOf(hosts).mutable_pools(0)->add_hosts(host);
  const std::string ab = Form(hosts);
  ClusterOf(hosts).mutable_pools(0)->mutable_hosts()->SwapElements(0, 1);
  EXPECT_NE(Form(hosts), ab);
}

TEST(CanonicalRequest, MapsHaveOneOrder) {
  v1::PlanRequest one = SmallPlanRequest();
  v1::PlanRequest other = SmallPlanRequest();
  for (int i = 0; i < 50; ++i) {
    (*one.mutable_launch()->mutable_environment())["V" + std::to_string(i)] = "1";
    (*other.mutable_launch()->mutable_environment())["V" + std::to_string(49 - i)] = "1";
  }
  EXPECT_EQ(Form(one), Form(other));
}

TEST(RequestIdentity, TellsTimeBudgetsApart) {
  v1::PlanRequest request = SmallPlanRequest();
  const RequestIdentity without = IdentityOf(request, kVersion);
  EXPECT_TRUE(without == IdentityOf(request, kVersion));
  ConstraintsOf(request).mutable_time_budget()->set_nanos(1);
  const RequestIdentity with = IdentityOf(request, kVersion);
  EXPECT_EQ(*with.form, *without.form);
  EXPECT_FALSE(with == without);
}

TEST(RequestOf, OtherBytesAreNone) {
  EXPECT_FALSE(RequestOf<v1::PlanRequest>("").has_value());
  EXPECT_FALSE(RequestOf<v1::PlanRequest>(std::string("P1\0\xff", 4)).has_value());
  EXPECT_FALSE(RequestOf<v1::PlanRequest>(std::string("E1\0", 3)).has_value());
  EXPECT_TRUE(RequestOf<v1::ExplainRequest>(std::string("E1\0", 3)).has_value());
}

// Requests of two methods may be the same bytes; their answers are not.
TEST(CanonicalRequest, MethodsAreToldApart) {
  const v1::PlanRequest plan = SmallPlanRequest();
  v1::FrontierRequest frontier;
  *frontier.mutable_problem() = plan.problem();
  v1::ExplainRequest explain;
  *explain.mutable_problem() = plan.problem();
  const std::set<std::string> forms = {Form(plan), CanonicalForm(frontier, kVersion),
                                       CanonicalForm(explain, kVersion)};
  EXPECT_EQ(forms.size(), 3u);
  EXPECT_TRUE(RequestOf<v1::ExplainRequest>(CanonicalForm(explain, kVersion)).has_value());
  EXPECT_FALSE(RequestOf<v1::ExplainRequest>(Form(plan)).has_value());
  // What they have beside the problem counts.
  const std::string form = CanonicalForm(frontier, kVersion);
  frontier.set_memory_steps(2);
  EXPECT_NE(CanonicalForm(frontier, kVersion), form);
  frontier.set_memory_steps(0);
  frontier.set_request_id("id");
  frontier.set_cache_policy(v1::CACHE_POLICY_BYPASS_LOOKUP);
  EXPECT_EQ(CanonicalForm(frontier, kVersion), form);
  const std::string whole = CanonicalForm(explain, kVersion);
  explain.set_world_size(4);
  EXPECT_NE(CanonicalForm(explain, kVersion), whole);
}

}  // namespace
}  // namespace hapmoe::server
