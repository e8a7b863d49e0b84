#include "server/concurrency/snapshot.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

TEST(Snapshot, ReaderKeepsItsValueWhenAnotherIsSet) {
  Snapshot<int> snapshot(std::make_shared<const int>(1));
  const std::shared_ptr<const int> before = snapshot.Get();
  snapshot.Set(std::make_shared<const int>(2));
  EXPECT_EQ(*before, 1);
  EXPECT_EQ(*snapshot.Get(), 2);
}

TEST(Snapshot, ReadersSeeWholeValuesInOrderWhileAWriterReplacesThem) {
  struct Pair {
    int first;
    int second;
  };
  Snapshot<Pair> snapshot(std::make_shared<const Pair>(Pair{0, 0}));
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      int last = 0;
      while (last < 5000) {
        const std::shared_ptr<const Pair> value = snapshot.Get();
        ASSERT_EQ(value->first, value->second);
        ASSERT_GE(value->first, last);
        last = value->first;
      }
    });
  }
  for (int i = 1; i <= 5000; ++i) snapshot.Set(std::make_shared<const Pair>(Pair{i, i}));
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace hapmoe::server
