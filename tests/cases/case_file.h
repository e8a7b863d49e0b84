// Cases of a file: what is asked of the planner, and what must hold of its answers.
#ifndef HAPMOE_TESTS_CASES_CASE_FILE_H_
#define HAPMOE_TESTS_CASES_CASE_FILE_H_

#include <google/protobuf/struct.pb.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::testing {

// One question. Evaluate, unless `plan` is set.
struct Question {
  bool plan = false;
  v1::Problem problem;
  std::vector<std::string> refused_with;  // Pieces of the refusal; empty: there must be an answer.
  std::vector<std::string> says;          // Pieces of assumptions or notes of the answer.
};

// What one user met, and what the planner must say to it.
struct Case {
  std::string id;
  std::string name;  // What holds, in one word of a test's name.
  std::string source;
  std::string note;  // Sums by hand, and where the question differs from what was told.
  std::map<std::string, Question> runs;
  std::vector<std::string> expect;  // See Holds.
};

// Reads {"models": {NAME: ARGUMENTS}, "cases": [...]}; a case is {"id", "name", "source", "note",
// "runs": {NAME: {"model", "args", "cluster", "plan", "constraints", "headroom",
// "router_statistics", "host_memory_bytes", "imbalance_quantile", "refused_with", "says"}},
// "expect": [...]}. A cluster is "NODESxACCELERATORS TYPE [at BYTES]", pools joined by " + ", with
// the bytes a second that one accelerator injects into the network. Any fault, an unknown key among
// them, is an error.
absl::StatusOr<std::vector<Case>> ReadCases(absl::string_view json);

// Whether "SIDE OP SIDE" holds of the answers, JSON forms of responses by the run's name. OP is ==,
// <, <=, > or >=, or ~R for equal within a share R. A side is numbers and paths joined by +, -, *
// and /, from left to right. A path is RUN.FIELD.FIELD...; an entry of a list is its index, and
// [max|sum|mean|count:] before a path joins what lists on the way hold. true and false compare as 1
// and 0. `explanation` is given the values of both sides.
absl::StatusOr<bool> Holds(absl::string_view expectation,
                           const std::map<std::string, google::protobuf::Struct>& answers,
                           std::string& explanation);

}  // namespace hapmoe::testing

#endif  // HAPMOE_TESTS_CASES_CASE_FILE_H_
