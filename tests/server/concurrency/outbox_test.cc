#include "server/concurrency/outbox.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using Box = Outbox<std::string>;

TEST(Outbox, HandsOutAMessageAtOnceWhenNothingIsBeingWritten) {
  Box box(2);
  EXPECT_EQ(box.Offer(1, "a").message, "a");
  EXPECT_FALSE(box.WriteDone().message.has_value());
  EXPECT_EQ(box.Offer(0, "b").message, "b");
}

TEST(Outbox, KeepsOnlyTheLatestOfEachKindForASlowReader) {
  Box box(2);
  EXPECT_EQ(box.Offer(0, "first").message, "first");
  EXPECT_FALSE(box.Offer(1, "progress 1").message.has_value());
  EXPECT_FALSE(box.Offer(0, "plan 1").message.has_value());
  EXPECT_FALSE(box.Offer(1, "progress 2").message.has_value());
  EXPECT_FALSE(box.Offer(0, "plan 2").message.has_value());
  EXPECT_EQ(box.WriteDone().message, "plan 2");
  EXPECT_EQ(box.WriteDone().message, "progress 2");
  EXPECT_FALSE(box.WriteDone().message.has_value());
}

TEST(Outbox, LastMessageFollowsTheOneBeingWrittenAndDropsWhatWaits) {
  Box box(1);
  EXPECT_EQ(box.Offer(0, "first").message, "first");
  EXPECT_FALSE(box.Offer(0, "dropped").message.has_value());
  EXPECT_FALSE(box.Close("answer").finish);
  const Box::Step step = box.WriteDone();
  EXPECT_EQ(step.message, "answer");
  EXPECT_TRUE(step.finish);
}

TEST(Outbox, FinishesAtOnceWhenIdle) {
  Box box(1);
  const Box::Step step = box.Close(std::nullopt);
  EXPECT_FALSE(step.message.has_value());
  EXPECT_TRUE(step.finish);
}

TEST(Outbox, IgnoresWhatComesAfterClosing) {
  Box box(1);
  EXPECT_TRUE(box.Close("answer").finish);
  EXPECT_FALSE(box.Offer(0, "late").message.has_value());
  EXPECT_FALSE(box.Close("twice").finish);
}

TEST(Outbox, WritesNeverOverlapAndTheLastOneComes) {
  Box box(1);
  std::string on_the_wire;  // Guarded by the protocol of the outbox alone.
  bool finished = false;
  const auto perform = [&](Box::Step step) {
    while (step.message.has_value()) {
      on_the_wire = *std::move(step.message);
      if (step.finish) finished = true;
      if (finished) return;
      step = box.WriteDone();
    }
    if (step.finish) finished = true;
  };
  std::thread producer([&] {
    for (int i = 0; i < 20000; ++i) perform(box.Offer(0, std::to_string(i)));
  });
  std::thread second([&] {
    for (int i = 0; i < 20000; ++i) perform(box.Offer(0, std::to_string(-i)));
  });
  producer.join();
  second.join();
  perform(box.Close("answer"));
  EXPECT_TRUE(finished);
  EXPECT_EQ(on_the_wire, "answer");
}

}  // namespace
}  // namespace hapmoe::server
