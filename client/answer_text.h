// The answers of the planner as text for engineers.
#ifndef HAPMOE_CLIENT_ANSWER_TEXT_H_
#define HAPMOE_CLIENT_ANSWER_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "hapmoe/v1/planner.pb.h"
#include "hapmoe/v1/profiles.pb.h"

namespace hapmoe::client {

// The plan, what it will take, what it is compared with, how far it is the best, and how to launch
// it. `directory` is where its files were written; empty where they were not.
std::string AnswerText(const v1::PlanAnswer& answer, absl::string_view directory);

// The layout of the job's own arguments, and what it will take.
std::string EvaluationText(const v1::EvaluateResponse& response);

// One line, without its end.
std::string ProgressText(const v1::Progress& progress);

std::string ServerInfoText(const v1::GetServerInfoResponse& info);

// A table of profiles.
std::string ProfileListText(const v1::ListProfilesResponse& profiles);

// The figures of a profile, each with its source.
std::string ProfileText(const v1::GetProfileResponse& response);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_ANSWER_TEXT_H_
