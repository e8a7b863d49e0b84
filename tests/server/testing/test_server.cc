#include "tests/server/testing/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::server {

ServerOptions TestServer::Options() {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics_listen = "127.0.0.1:0";
  options.search_threads = 2;
  return options;
}

TestServer::TestServer(std::unique_ptr<PlanSolver> solver, const ServerOptions& options) {
  auto server = Server::Start(options, std::move(solver));
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    std::abort();
  }
  server_ = *std::move(server);
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                 grpc::InsecureChannelCredentials());
  planner_ = v1::PlannerService::NewStub(channel_);
  profiles_ = v1::ProfilesService::NewStub(channel_);
  feedback_ = v1::FeedbackService::NewStub(channel_);
}

std::string TestServer::Metrics() const { return HttpGet(server_->metrics_port(), "/metrics"); }

double TestServer::Metric(const std::string& series) const {
  std::istringstream lines(Metrics());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(series + " ", 0) == 0) return std::stod(line.substr(series.size() + 1));
  }
  return -1;
}

google::rpc::ErrorInfo ErrorInfoOf(const grpc::Status& status) {
  const auto found = DetailsOf<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(found.size(), 1u) << status.error_code() << ": " << status.error_message();
  if (found.empty()) return {};
  EXPECT_EQ(found[0].domain(), "hapmoe");
  return found[0];
}

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::string HttpGet(int port, const std::string& path) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  std::string answer;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char buffer[4096];
      for (ssize_t count; (count = read(connection, buffer, sizeof(buffer))) > 0;) {
        answer.append(buffer, static_cast<size_t>(count));
      }
    }
  }
  close(connection);
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? std::string() : answer.substr(body + 4);
}

}  // namespace hapmoe::server
