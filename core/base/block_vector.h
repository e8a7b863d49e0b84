// A vector that grows without a copy of what it holds.
#ifndef HAPMOE_CORE_BASE_BLOCK_VECTOR_H_
#define HAPMOE_CORE_BASE_BLOCK_VECTOR_H_

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/memory_budget.h"

namespace hapmoe {

// Elements stay where they are once there are kBlock of them: growing by one more takes no longer
// when there are a million. Where a search is asked to stop, a copy of all of them would come
// between.
template <typename T>
class BlockVector {
 public:
  static constexpr size_t kBlock = 1024;

  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    const_iterator(const BlockVector& vector, size_t index) : vector_(&vector), index_(index) {}
    const T& operator*() const { return (*vector_)[index_]; }
    const T* operator->() const { return &(*vector_)[index_]; }
    const_iterator& operator++() {
      ++index_;
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const const_iterator&, const const_iterator&) = default;

   private:
    const BlockVector* vector_;
    size_t index_;
  };

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  const_iterator begin() const { return const_iterator(*this, 0); }
  const_iterator end() const { return const_iterator(*this, size_); }

  // False, with nothing done, where `charge` has too little memory.
  bool Add(T value, MemoryCharge& charge) {
    if (size_ == blocks_.size() * kBlock) {
      if (!charge.Reserve(blocks_, blocks_.size() + 1)) return false;
      blocks_.emplace_back();
    }
    std::vector<T>& block = blocks_[size_ / kBlock];
    // The first one grows as vectors do: most hold little.
    const size_t room = blocks_.size() == 1 ? block.size() + 1 : kBlock;
    if (!charge.Reserve(block, room)) return false;
    block.push_back(std::move(value));
    ++size_;
    return true;
  }

  // Keeps the memory.
  void Clear() {
    for (std::vector<T>& block : blocks_) block.clear();
    size_ = 0;
  }

 private:
  std::vector<std::vector<T>> blocks_;  // Full, but for the last ones.
  size_t size_ = 0;
};

}  // namespace hapmoe

#endif  // HAPMOE_CORE_BASE_BLOCK_VECTOR_H_
