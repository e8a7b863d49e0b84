// Reports of measured iterations and their corrections, as text.
#ifndef HAPMOE_CLIENT_REPORT_TEXT_H_
#define HAPMOE_CLIENT_REPORT_TEXT_H_

#include <string>

#include "hapmoe/v1/feedback.pb.h"

namespace hapmoe::client {

std::string ReportText(const v1::ReportIterationResponse& response);
std::string ReportListText(const v1::ListReportsResponse& response);
std::string CorrectionsText(const v1::ListCorrectionsResponse& response);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_REPORT_TEXT_H_
