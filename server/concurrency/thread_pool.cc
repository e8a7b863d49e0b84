#include "server/concurrency/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace hapmoe::server {
namespace {

// Linux keeps a niceness for each thread. That it may not be had costs no more than time.
void GiveWay(int niceness) {
  if (niceness == 0) return;
  const auto self = static_cast<id_t>(gettid());
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, self);
  if (errno == 0) (void)setpriority(PRIO_PROCESS, self, std::min(now + niceness, 19));
}

}  // namespace

ThreadPool::ThreadPool(int threads, size_t queue_capacity, int niceness)
    : queue_capacity_(queue_capacity), queue_(queue_capacity) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, niceness] {
      GiveWay(niceness);
      Work();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::Submit(Task task, const std::string& caller, Ticket ticket) {
  {
    MutexLock lock(mutex_);
    if (!queue_.Push(caller, {std::move(task), ticket})) return false;
    queued_.store(queue_.size(), std::memory_order_relaxed);
  }
  work_.NotifyOne();
  return true;
}

ThreadPool::Task ThreadPool::Withdraw(const std::string& caller, Ticket ticket) {
  MutexLock lock(mutex_);
  std::optional<Queued> found =
      queue_.Remove(caller, [ticket](const Queued& queued) { return queued.ticket == ticket; });
  if (!found.has_value()) return nullptr;
  queued_.store(queue_.size(), std::memory_order_relaxed);
  return std::move(found->task);
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
      Task task = queue_.Pop().task;
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
