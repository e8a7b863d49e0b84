// Times of matrix products that were looked up before.
#ifndef HAPMOE_CORE_COST_PRODUCT_MEMO_H_
#define HAPMOE_CORE_COST_PRODUCT_MEMO_H_

#include <array>
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "core/base/mutex.h"
#include "core/profile/operation_table.h"

namespace hapmoe::cost {

// A search costs thousands of sets of degrees, which share most of their products; the correction
// of a table by its samples takes microseconds each. Thread safe.
class ProductMemo {
 public:
  struct Key {
    const profile::OperationTable* table = nullptr;
    profile::TableKind kind = profile::TableKind::kGemm;
    profile::OperationShape shape;
    double extra_bytes = 0;

    friend bool operator==(const Key& a, const Key& b) {
      return a.table == b.table && a.kind == b.kind && a.shape.m == b.shape.m &&
             a.shape.n == b.shape.n && a.shape.k == b.shape.k && a.shape.groups == b.shape.groups &&
             a.extra_bytes == b.extra_bytes;
    }
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.table, key.kind, key.shape.m, key.shape.n,
                        key.shape.k, key.shape.groups, key.extra_bytes);
    }
  };

  // What `find` returned for this key the first time. Other threads may call it at the same time.
  profile::TableAnswer Get(const Key& key, absl::FunctionRef<profile::TableAnswer()> find);

 private:
  static constexpr size_t kShards = 16;
  struct Shard {
    Mutex mutex;
    absl::flat_hash_map<Key, profile::TableAnswer> answers ABSL_GUARDED_BY(mutex);
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_PRODUCT_MEMO_H_
