#include "tests/trial/gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace hapmoe::trial {
namespace {

constexpr int kTickMilliseconds = 5;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void SendAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// The next close resets the connection.
void ResetOnClose(int socket) {
  const linger now = {1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool Readable(int socket) {
  pollfd poll_one = {socket, POLLIN, 0};
  return poll(&poll_one, 1, kTickMilliseconds) > 0;
}

}  // namespace

Gate::Gate(int server_port) : server_port_(server_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  (void)bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  (void)listen(listener_, 64);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

Gate::~Gate() {
  stopping_ = true;
  accepting_.join();
  close(listener_);
  std::vector<std::unique_ptr<Connection>> connections;
  {
    MutexLock lock(mutex_);
    connections.swap(connections_);
  }
  for (const auto& connection : connections) {
    connection->over = true;
    connection->requests.join();
    connection->answers.join();
    close(connection->client);
    close(connection->server);
  }
}

void Gate::Accept() {
  while (!stopping_) {
    if (!Readable(listener_)) continue;
    auto connection = std::make_unique<Connection>();
    connection->client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection->client < 0) continue;
    connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in server = Loopback(server_port_);
    if (refused_ || connect(connection->server, reinterpret_cast<const sockaddr*>(&server),
                            sizeof(server)) != 0) {
      ResetOnClose(connection->client);
      close(connection->client);
      close(connection->server);
      continue;
    }
    SendAtOnce(connection->client);
    SendAtOnce(connection->server);
    ++connections_made_;
    Connection& made = *connection;
    made.requests = std::thread([this, &made] { Pass(made, /*requests=*/true); });
    made.answers = std::thread([this, &made] { Pass(made, /*requests=*/false); });
    MutexLock lock(mutex_);
    connections_.push_back(std::move(connection));
  }
}

void Gate::Pass(Connection& connection, bool requests) {
  const int from = requests ? connection.client : connection.server;
  const int to = requests ? connection.server : connection.client;
  std::vector<char> buffer(16384);
  while (!connection.over && !stopping_) {
    if (vanished_ || (!requests && answers_stopped_)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMilliseconds));
      continue;
    }
    if (!Readable(from)) continue;
    const ssize_t count = recv(from, buffer.data(), buffer.size(), 0);
    if (count <= 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_));
    if (vanished_) continue;  // They were under way.
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t more =
          send(to, buffer.data() + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += more;
    }
  }
  if (!vanished_) shutdown(to, SHUT_WR);
}

void Gate::Cut() {
  MutexLock lock(mutex_);
  for (const auto& connection : connections_) {
    if (connection->over.exchange(true)) continue;
    connection->requests.join();
    connection->answers.join();
    for (int* const side : {&connection->client, &connection->server}) {
      ResetOnClose(*side);
      close(std::exchange(*side, -1));
    }
    connection->requests = std::thread([] {});
    connection->answers = std::thread([] {});
  }
}

void Gate::EndRequests() {
  MutexLock lock(mutex_);
  for (const auto& connection : connections_) {
    if (!connection->over) shutdown(connection->server, SHUT_WR);
  }
}

}  // namespace hapmoe::trial
