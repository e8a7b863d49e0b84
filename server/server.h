// The running service: all its parts, put together and taken apart in order.
#ifndef HAPMOE_SERVER_SERVER_H_
#define HAPMOE_SERVER_SERVER_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planning/plan_solver.h"
#include "server/security/certificates.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

struct ServerOptions {
  std::string listen = "127.0.0.1:50051";         // HOST:PORT or unix:PATH; port 0: a free one.
  std::string metrics_listen = "127.0.0.1:9464";  // The same; empty: no metrics are served.
  std::string store;                              // As OpenStorage describes; may hold a password.
  std::string state_dir;                          // Of an SQLite file, where `store` is empty.
  std::string profiles_dir;                       // Of profile files, watched. Empty: none.
  std::chrono::milliseconds profiles_period{1000};  // At which profiles_dir is looked at.
  int search_threads = 1;                           // At least 1.
  int light_threads = 2;                            // At least 1.
  size_t queue_size = 64;                           // Searches that may wait for a thread.
  size_t light_queue_size = 1024;                   // Other calls that may.
  std::chrono::nanoseconds max_time_budget = std::chrono::seconds(30);
  int64_t max_search_memory = int64_t{1} << 30;  // Bytes that all searches may have together.
  size_t max_message_bytes = size_t{4} << 20;    // Of a request.
  // Of requests that are not answered yet together, as they travelled.
  size_t max_request_memory = size_t{256} << 20;
  // After which a caller's connection is closed once its calls are answered; 0: never.
  std::chrono::nanoseconds max_connection_age = std::chrono::nanoseconds::zero();
  // How long a connection is silent before its peer is asked whether it is there, and how long that
  // may take to answer.
  std::chrono::milliseconds keepalive_time{60'000};
  std::chrono::milliseconds keepalive_timeout{20'000};
  size_t plan_cache_bytes = size_t{64} << 20;  // Of answers that are kept; 0: none is.
  bool warm_up = false;                        // Plan something before the first call comes.
  TlsFiles tls;
  std::vector<std::string> writers;  // As Writers; empty: every client.
};

// Thread safe, apart from Drain, which is called once.
class Server {
 public:
  // Builds everything and starts to answer. `solver` is never null.
  // InvalidArgument: an option makes no sense. Unavailable: an address is taken.
  // Other errors: the storage cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<PlanSolver> solver);
  // Takes no more calls and interrupts those in flight, if Drain did not come before.
  ~Server();

  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }  // 0: none.

  // Profiles and reports that could not be loaded.
  std::vector<LoadFault> faults() const;
  size_t profiles() const;

  // Health turns to NOT_SERVING and new calls are refused at once; calls in flight are answered.
  // What searches longer than `grace` is interrupted and answers with the best plan it has. Returns
  // when all is answered, or could not be; false in the latter case.
  bool Drain(std::chrono::nanoseconds grace);

 private:
  struct Parts;  // In the order in which they depend on each other.

  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
  int port_ = 0;
  int metrics_port_ = 0;
};

// What this program was built from.
extern const char kVersion[];
extern const char kCommit[];

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_SERVER_H_
