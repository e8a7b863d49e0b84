#include "server/concurrency/call_registry.h"

namespace hapmoe::server {

CallRegistry::Ticket::~Ticket() {
  if (registry_ == nullptr) return;
  MutexLock lock(registry_->mutex_);
  registry_->calls_.erase(position_);
  if (registry_->calls_.empty()) registry_->idle_.NotifyAll();
}

std::optional<CallRegistry::Ticket> CallRegistry::Admit(std::shared_ptr<Interrupter> interrupter) {
  MutexLock lock(mutex_);
  if (draining_) return std::nullopt;
  calls_.push_front(std::move(interrupter));
  return Ticket(this, calls_.begin());
}

void CallRegistry::StartDrain() {
  MutexLock lock(mutex_);
  draining_ = true;
}

bool CallRegistry::draining() const {
  MutexLock lock(mutex_);
  return draining_;
}

bool CallRegistry::WaitIdle(std::chrono::steady_clock::duration timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  while (!calls_.empty()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    idle_.WaitUntil(mutex_, end);
  }
  return true;
}

void CallRegistry::InterruptAll() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  for (const std::shared_ptr<Interrupter>& call : calls_) {
    if (call != nullptr) call->Trip(Interrupter::Cause::kTime);
  }
}

bool CallRegistry::interrupted() const {
  MutexLock lock(mutex_);
  return interrupted_;
}

size_t CallRegistry::in_flight() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

}  // namespace hapmoe::server
