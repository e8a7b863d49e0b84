// A fixed number of threads with a bounded queue of calls, which also share the work of loops.
#ifndef HAPMOE_SERVER_CONCURRENCY_THREAD_POOL_H_
#define HAPMOE_SERVER_CONCURRENCY_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "core/base/executor.h"
#include "core/base/mutex.h"
#include "server/concurrency/cpu_meter.h"
#include "server/concurrency/fair_queue.h"

namespace hapmoe::server {

// Tasks of one caller start in the order in which they were submitted, and callers take turns
// (fair_queue.h). A thread with no task to start helps the
// loops that are running; it leaves them as soon as a task waits, so that a long search delays a
// short call by one iteration of its loop at most.
//
// Thread safe. Tasks and bodies must not throw.
class ThreadPool : public Executor {
 public:
  // `niceness`: of its threads, beyond that of the thread that makes them. What they do gives way
  // to the process's other threads where there are too few processors for all.
  ThreadPool(int threads, size_t queue_capacity, int niceness = 0);
  // Runs what is queued, then ends the threads. No call may be under way.
  ~ThreadPool() override;

  using Task = absl::AnyInvocable<void()>;

  // Names a task of which it may turn out that it need not wait any longer. Never kNoTicket.
  using Ticket = uint64_t;
  static constexpr Ticket kNoTicket = 0;
  Ticket NewTicket() { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }

  // Queues a task of a caller; false, at once, when queue_capacity tasks wait already, or too many
  // of this caller.
  [[nodiscard]] bool Submit(Task task, const std::string& caller = "", Ticket ticket = kNoTicket);

  // A task that still waits, which then has no place in the queue and is not run here; null where
  // it does not. Costs as much as its caller has tasks that wait.
  Task Withdraw(const std::string& caller, Ticket ticket);

  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    ParallelFor(count, body, /*helpers_cpu=*/nullptr);
  }

  // The same; the processor time of the threads that helped, the caller's own left out, is added to
  // `helpers_cpu`.
  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body, CpuMeter* helpers_cpu);

  int threads() const { return static_cast<int>(threads_.size()); }
  size_t queue_capacity() const { return queue_capacity_; }
  size_t queued() const { return queued_.load(std::memory_order_relaxed); }
  // Threads that run a task or help a loop.
  int busy() const { return busy_.load(std::memory_order_relaxed); }

 private:
  // A running ParallelFor, on the stack of its caller.
  struct Loop {
    Loop(int64_t iterations, absl::FunctionRef<void(int64_t)> loop_body)
        : count(iterations), body(loop_body) {}
    bool open() const { return next.load(std::memory_order_relaxed) < count; }

    const int64_t count;
    const absl::FunctionRef<void(int64_t)> body;
    CpuMeter* helpers_cpu = nullptr;
    std::atomic<int64_t> next{0};
    int helpers = 0;  // Guarded by the pool's mutex.
    CondVar idle;     // Signalled when helpers becomes 0.
  };

  struct Queued {
    Task task;
    Ticket ticket = kNoTicket;
  };

  void Work();
  void Help(Loop& loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Loop* FindOpenLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t queue_capacity_;
  std::atomic<size_t> queued_{0};
  std::atomic<int> busy_{0};
  std::atomic<Ticket> next_ticket_{kNoTicket + 1};

  Mutex mutex_;
  CondVar work_;  // Signalled when there is something to do, or the pool stops.
  FairQueue<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<Loop*> loops_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // Last: they use all of the above.
};

// The pool as one call's executor: the time of its helpers is metered. Thread safe.
class MeteredExecutor : public Executor {
 public:
  // Both must outlive this.
  MeteredExecutor(ThreadPool& pool, CpuMeter& helpers_cpu) : pool_(pool), meter_(helpers_cpu) {}

  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    pool_.ParallelFor(count, body, &meter_);
  }

 private:
  ThreadPool& pool_;
  CpuMeter& meter_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_THREAD_POOL_H_
