// A gate between a client and a server, which passes bytes on as badly as one likes.
#ifndef HAPMOE_TESTS_TRIAL_GATE_H_
#define HAPMOE_TESTS_TRIAL_GATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"

namespace hapmoe::trial {

// Listens on a free port of 127.0.0.1. What is set holds from the next bytes on. Thread safe.
class Gate {
 public:
  explicit Gate(int server_port);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Bytes wait for so long in either direction.
  void Delay(std::chrono::milliseconds delay) { delay_ = delay.count(); }
  // No byte is read from the server, whose own buffers fill. The client's go on.
  void StopAnswers(bool stopped) { answers_stopped_ = stopped; }
  // No byte is passed on in either direction, and none is lost for whoever sends: the other side
  // has vanished, and nothing says so.
  void Vanish(bool vanished) { vanished_ = vanished; }
  // Resets every connection.
  void Cut();
  // The client sends no more, by a regular end; the server's answers still pass.
  void EndRequests();
  // New connections are reset, or taken again.
  void Refuse(bool refused) { refused_ = refused; }

  int connections() const { return connections_made_; }

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    std::atomic<bool> over{false};
    std::thread requests;
    std::thread answers;
  };

  void Accept();
  // Until either side ends.
  void Pass(Connection& connection, bool requests);

  const int server_port_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> delay_{0};  // Milliseconds.
  std::atomic<bool> answers_stopped_{false};
  std::atomic<bool> vanished_{false};
  std::atomic<bool> refused_{false};
  std::atomic<int> connections_made_{0};
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::thread accepting_;
};

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_GATE_H_
