#include "server/concurrency/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(ThreadPool, RunsEveryIterationOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads, 1);
    std::vector<int> runs(10000, 0);  // One element an iteration: no two threads share one.
    pool.ParallelFor(10000, [&](int64_t i) { ++runs[i]; });
    EXPECT_THAT(runs, Each(1)) << threads << " threads";
  }
}

TEST(ThreadPool, RunsNoIterationOfAnEmptyLoop) {
  ThreadPool pool(2, 1);
  pool.ParallelFor(0, [](int64_t) { FAIL(); });
  pool.ParallelFor(-1, [](int64_t) { FAIL(); });
}

TEST(ThreadPool, SharesALoopAmongThreads) {
  ThreadPool pool(2, 1);
  std::atomic<int> waiting{0};
  // Each iteration waits for the others: only three threads at once can run it.
  pool.ParallelFor(3, [&](int64_t) {
    ++waiting;
    while (waiting < 3) std::this_thread::yield();
  });
  EXPECT_EQ(waiting, 3);
}

TEST(ThreadPool, WhatIsWithdrawnIsNotRunAndLeavesItsPlace) {
  ThreadPool pool(1, 1);
  std::promise<void> begun;
  std::promise<void> go_on;
  const ThreadPool::Ticket running = pool.NewTicket();
  ASSERT_TRUE(pool.Submit(
      [&] {
        begun.set_value();
        go_on.get_future().wait();
      },
      "a", running));
  begun.get_future().wait();
  EXPECT_EQ(pool.Withdraw("a", running), nullptr);  // It runs already.
  const ThreadPool::Ticket waiting = pool.NewTicket();
  std::string ran;
  ASSERT_TRUE(pool.Submit([&ran] { ran += "withdrawn"; }, "a", waiting));
  EXPECT_FALSE(pool.Submit([] {}, "b"));
  EXPECT_EQ(pool.queued(), 1u);
  ThreadPool::Task task = pool.Withdraw("a", waiting);
  ASSERT_NE(task, nullptr);
  EXPECT_EQ(pool.Withdraw("a", waiting), nullptr);
  EXPECT_EQ(pool.queued(), 0u);
  std::promise<void> done;
  ASSERT_TRUE(pool.Submit(
      [&] {
        ran += "next";
        done.set_value();
      },
      "b"));
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(ran, "next");
  task();  // His who withdrew it.
  EXPECT_EQ(ran, "nextwithdrawn");
}

int NicenessOfThread(ThreadPool& pool) {
  std::promise<int> niceness;
  EXPECT_TRUE(pool.Submit(
      [&] { niceness.set_value(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()))); }));
  return niceness.get_future().get();
}

TEST(ThreadPool, ThreadsGiveWayToOthersAsMuchAsAsked) {
  const int own = getpriority(PRIO_PROCESS, 0);
  ThreadPool plain(1, 1);
  EXPECT_EQ(NicenessOfThread(plain), own);
  ThreadPool nice(1, 1, 3);
  EXPECT_EQ(NicenessOfThread(nice), std::min(own + 3, 19));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own);
}

TEST(ThreadPool, NestedLoopsFromFullPoolComeToAnEnd) {
  ThreadPool pool(3, 16);
  std::atomic<int64_t> sum{0};
  std::vector<std::future<void>> done;
  for (int task = 0; task < 8; ++task) {
    auto promise = std::make_shared<std::promise<void>>();
    done.push_back(promise->get_future());
    ASSERT_TRUE(pool.Submit([&pool, &sum, promise] {
      pool.ParallelFor(
          10, [&](int64_t i) { pool.ParallelFor(10, [&](int64_t j) { sum += 10 * i + j; }); });
      promise->set_value();
    }));
  }
  for (std::future<void>& future : done) future.get();
  EXPECT_EQ(sum, 8 * 4950);  // 8 tasks x (0 + 1 + ... + 99)
}

TEST(ThreadPool, RefusesATaskAtOnceWhenTheQueueIsFull) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::promise<void> started;
  ThreadPool pool(1, 2);
  ASSERT_TRUE(pool.Submit([&, released] {
    started.set_value();
    released.wait();
  }));
  started.get_future().wait();  // Running, no longer queued.
  EXPECT_EQ(pool.busy(), 1);
  EXPECT_TRUE(pool.Submit([] {}));
  EXPECT_TRUE(pool.Submit([] {}));
  EXPECT_EQ(pool.queued(), 2u);
  EXPECT_FALSE(pool.Submit([] {}));
  release.set_value();
}

TEST(ThreadPool, StartsTasksInOrderAndRunsWhatIsQueuedBeforeItEnds) {
  std::vector<int> order;  // One thread: no lock needed.
  {
    ThreadPool pool(1, 8);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.Submit([&order, i] { order.push_back(i); }));
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(ThreadPool, HelpersLeaveALoopForAWaitingTask) {
  ThreadPool pool(1, 4);
  std::atomic<bool> helping{false};
  std::atomic<bool> ran{false};
  const std::thread::id caller = std::this_thread::get_id();
  // The pool's only thread helps this loop, which ends only when the task has run.
  bool submitted = false;
  pool.ParallelFor(1 << 20, [&](int64_t) {
    if (std::this_thread::get_id() != caller) {
      helping = true;
    } else if (!submitted) {
      while (!helping) std::this_thread::yield();
      submitted = pool.Submit([&] { ran = true; });
      while (!ran) std::this_thread::yield();
    }
    if (!ran) std::this_thread::sleep_for(std::chrono::microseconds(10));
  });
  EXPECT_TRUE(submitted);
  EXPECT_TRUE(ran);
}

TEST(ThreadPool, MetersTheTimeOfHelpersOnly) {
  ThreadPool pool(2, 1);
  CpuMeter meter;
  MeteredExecutor executor(pool, meter);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> helped{0};
  std::atomic<int> waiting{0};
  executor.ParallelFor(3, [&](int64_t) {
    ++waiting;
    while (waiting < 3) std::this_thread::yield();
    if (std::this_thread::get_id() == caller) return;
    ++helped;
    const int64_t end = ThreadCpuNanoseconds() + 10'000'000;
    while (ThreadCpuNanoseconds() < end) {
    }
  });
  EXPECT_EQ(helped, 2);
  EXPECT_GE(meter.seconds(), 0.020);  // Two helpers of 10 ms each.
}

}  // namespace
}  // namespace hapmoe::server
