#include "core/cost/product_memo.h"

#include "absl/hash/hash.h"

namespace hapmoe::cost {

profile::TableAnswer ProductMemo::Get(const Key& key,
                                      absl::FunctionRef<profile::TableAnswer()> find) {
  Shard& shard = shards_[absl::Hash<Key>{}(key) % kShards];
  {
    MutexLock lock(shard.mutex);
    const auto known = shard.answers.find(key);
    if (known != shard.answers.end()) return known->second;
  }
  const profile::TableAnswer answer = find();
  MutexLock lock(shard.mutex);
  return shard.answers.try_emplace(key, answer).first->second;
}

}  // namespace hapmoe::cost
