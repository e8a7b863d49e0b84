#include "server/concurrency/thread_pool.h"

#include <algorithm>
#include <utility>

namespace hapmoe::server {

ThreadPool::ThreadPool(int threads, size_t queue_capacity)
    : queue_capacity_(queue_capacity), queue_(queue_capacity) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::Submit(absl::AnyInvocable<void()> task, const std::string& caller) {
  {
    MutexLock lock(mutex_);
    if (!queue_.Push(caller, std::move(task))) return false;
    queued_.store(queue_.size(), std::memory_order_relaxed);
  }
  work_.NotifyOne();
  return true;
}

void ThreadPool::ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body,
                             CpuMeter* helpers_cpu) {
  if (count <= 0) return;
  Loop loop(count, body);
  loop.helpers_cpu = helpers_cpu;
  if (count > 1) {
    MutexLock lock(mutex_);
    loops_.push_back(&loop);
    work_.NotifyAll();
  }
  for (;;) {
    const int64_t i = loop.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= count) break;
    body(i);
  }
  if (count > 1) {
    // No new helper can join once the loop is off the list. Those still at work run iterations of
    // their own, never wait for this thread, and so come to an end.
    MutexLock lock(mutex_);
    loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
    while (loop.helpers > 0) loop.idle.Wait(mutex_);
  }
}

ThreadPool::Loop* ThreadPool::FindOpenLoop() {
  for (Loop* loop : loops_) {
    if (loop->open()) return loop;
  }
  return nullptr;
}

void ThreadPool::Help(Loop& loop) {
  ++loop.helpers;
  mutex_.Unlock();
  {
    ScopedCpu cpu(loop.helpers_cpu);
    while (queued_.load(std::memory_order_relaxed) == 0) {
      const int64_t i = loop.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= loop.count) break;
      loop.body(i);
    }
  }
  mutex_.Lock();
  if (--loop.helpers == 0) loop.idle.NotifyAll();
}

void ThreadPool::Work() {
  MutexLock lock(mutex_);
  for (;;) {
    if (!queue_.empty()) {
      absl::AnyInvocable<void()> task = queue_.Pop();
      queued_.store(queue_.size(), std::memory_order_relaxed);
      busy_.fetch_add(1, std::memory_order_relaxed);
      mutex_.Unlock();
      std::move(task)();
      task = nullptr;  // What it holds ends here, not under the lock.
      busy_.fetch_sub(1, std::memory_order_relaxed);
      mutex_.Lock();
    } else if (Loop* loop = FindOpenLoop(); loop != nullptr) {
      busy_.fetch_add(1, std::memory_order_relaxed);
      Help(*loop);
      busy_.fetch_sub(1, std::memory_order_relaxed);
    } else if (stopping_) {
      return;
    } else {
      work_.Wait(mutex_);
    }
  }
}

}  // namespace hapmoe::server
