// Messages on their way to a reader that may be slow: one is being written, and of each kind only
// the latest waits.
#ifndef HAPMOE_SERVER_CONCURRENCY_OUTBOX_H_
#define HAPMOE_SERVER_CONCURRENCY_OUTBOX_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace hapmoe::server {

// Decides what is written next; writing is up to the caller. A producer offers messages and closes
// once; the writer says when a write is done. Whoever is handed a step performs it, and nobody else
// is handed one until WriteDone: writes never overlap. Memory is bounded by one message a kind.
//
// Thread safe.
template <typename Message>
class Outbox {
 public:
  // What to do now. Neither a message nor finish: nothing, a later Offer or Close brings more.
  struct Step {
    std::optional<Message> message;
    bool finish = false;  // After the message, if there is one.
  };

  explicit Outbox(size_t kinds) : waiting_(kinds) {}

  // A message to send, which replaces a waiting one of its kind. Ignored once closed.
  [[nodiscard]] Step Offer(size_t kind, Message message) {
    MutexLock lock(mutex_);
    if (closed_) return {};
    if (busy_) {
      waiting_[kind] = std::move(message);
      return {};
    }
    busy_ = true;
    return {std::move(message), false};
  }

  // Ends the stream with a last message, or with none. Messages that wait are dropped.
  [[nodiscard]] Step Close(std::optional<Message> last) {
    MutexLock lock(mutex_);
    if (closed_) return {};
    closed_ = true;
    last_ = std::move(last);
    if (busy_) return {};
    busy_ = true;
    return {std::move(last_), true};
  }

  // The write that was handed out is done. Kinds with smaller numbers go first.
  [[nodiscard]] Step WriteDone() {
    MutexLock lock(mutex_);
    if (closed_) return {std::move(last_), true};
    for (std::optional<Message>& message : waiting_) {
      if (message.has_value()) return {std::exchange(message, std::nullopt), false};
    }
    busy_ = false;
    return {};
  }

 private:
  Mutex mutex_;
  std::vector<std::optional<Message>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<Message> last_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // A message is being written.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_OUTBOX_H_
