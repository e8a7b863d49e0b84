// From the request of a command to its printed answer, for every unary call of the planner's.
#ifndef HAPMOE_CLIENT_CALL_AND_PRINT_H_
#define HAPMOE_CLIENT_CALL_AND_PRINT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/options.h"
#include "client/text.h"

namespace hapmoe::client {

// Prints an answer as the options ask: as JSON, or as what `text` makes of it.
template <typename Response, typename Text>
void PrintAnswer(const Response& response, const Text& text, const Options& options,
                 const Console& console) {
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << text(response);
  }
}

// What is printed of a deleted thing; the answer says nothing of it.
struct Deleted {
  const std::string& name;
  std::string operator()(const google::protobuf::Message&) const {
    return absl::StrCat(Printable(name), " deleted\n");
  }
};

// Makes one call and prints its answer, or what became of it.
template <typename Stub, typename Request, typename Response, typename Text>
ExitCode CallAndPrint(UnaryMethod<Stub, Request, Response> method, const Request& request,
                      const Text& text, const Options& options, const Console& console,
                      Connection& connection) {
  Response response;
  const grpc::Status status = connection.Call(method, request, response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  PrintAnswer(response, text, options, console);
  return kDone;
}

// The same for a call whose answer comes in pages, which are printed as one.
template <typename Stub, typename Request, typename Response, typename Text>
ExitCode ListAllAndPrint(UnaryMethod<Stub, Request, Response> method, const Text& text,
                         const Options& options, const Console& console, Connection& connection) {
  Response all;
  Request request;
  request.set_page_size(1000);
  do {
    Response page;
    const grpc::Status status = connection.Call(method, request, page);
    if (!status.ok()) return ReportFailure(status, console, connection);
    all.MergeFrom(page);
    // A server that repeats its token would keep us here for ever.
    if (page.next_page_token() == request.page_token()) break;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  all.clear_next_page_token();
  PrintAnswer(all, text, options, console);
  return kDone;
}

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CALL_AND_PRINT_H_
