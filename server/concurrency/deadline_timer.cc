#include "server/concurrency/deadline_timer.h"

#include <utility>

namespace hapmoe::server {

DeadlineTimer::Registration& DeadlineTimer::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Drop();
    timer_ = std::exchange(other.timer_, nullptr);
    key_ = other.key_;
  }
  return *this;
}

void DeadlineTimer::Registration::Drop() {
  if (timer_ == nullptr) return;
  MutexLock lock(timer_->mutex_);
  timer_->deadlines_.erase(key_);
  timer_ = nullptr;
}

DeadlineTimer::DeadlineTimer() : thread_([this] { Run(); }) {}

DeadlineTimer::~DeadlineTimer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

DeadlineTimer::Registration DeadlineTimer::Set(TimePoint when,
                                               std::shared_ptr<Interrupter> interrupter) {
  if (when <= std::chrono::steady_clock::now()) {
    interrupter->Trip(Interrupter::Cause::kTime);
    return Registration();
  }
  MutexLock lock(mutex_);
  const Registration::Key key(when, next_id_++);
  const auto position = deadlines_.emplace(key, std::move(interrupter)).first;
  if (position == deadlines_.begin()) changed_.NotifyOne();
  return Registration(this, key);
}

size_t DeadlineTimer::pending() const {
  MutexLock lock(mutex_);
  return deadlines_.size();
}

void DeadlineTimer::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (deadlines_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    const auto first = deadlines_.begin();
    if (first->first.first <= std::chrono::steady_clock::now()) {
      first->second->Trip(Interrupter::Cause::kTime);
      deadlines_.erase(first);
    } else {
      changed_.WaitUntil(mutex_, first->first.first);
    }
  }
}

}  // namespace hapmoe::server
