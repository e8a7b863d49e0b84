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
  return Add(when, [interrupter = std::move(interrupter)] {
    interrupter->Trip(Interrupter::Cause::kTime);
  });
}

DeadlineTimer::Registration DeadlineTimer::Call(TimePoint when,
                                                absl::AnyInvocable<void()> function) {
  return Add(when, std::move(function));
}

DeadlineTimer::Registration DeadlineTimer::Add(TimePoint when,
                                               absl::AnyInvocable<void()> function) {
  MutexLock lock(mutex_);
  const Registration::Key key(when, next_id_++);
  const auto position = deadlines_.emplace(key, std::move(function)).first;
  if (position == deadlines_.begin()) changed_.NotifyOne();
  return Registration(this, key);
}

size_t DeadlineTimer::pending() const {
  MutexLock lock(mutex_);
  return deadlines_.size();
}

void DeadlineTimer::Run() {
  mutex_.Lock();
  while (!stopping_) {
    if (deadlines_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    const auto first = deadlines_.begin();
    if (first->first.first > std::chrono::steady_clock::now()) {
      changed_.WaitUntil(mutex_, first->first.first);
      continue;
    }
    absl::AnyInvocable<void()> function = std::move(first->second);
    deadlines_.erase(first);
    mutex_.Unlock();
    function();
    function = nullptr;
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace hapmoe::server
