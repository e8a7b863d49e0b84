// A bounded queue in which no caller can stand in the way of another.
#ifndef HAPMOE_SERVER_CONCURRENCY_FAIR_QUEUE_H_
#define HAPMOE_SERVER_CONCURRENCY_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace hapmoe::server {

// Callers take turns: each turn takes the oldest item of one, and no caller has a second turn
// before all others that wait had one. What one alone may queue is the room that it leaves to all
// others, half of the capacity therefore (dynamic thresholds of shared buffers, Choudhury and
// Hahne, 1998): whoever comes finds room, however much another sends. Not thread safe.
template <typename Item>
class FairQueue {
 public:
  explicit FairQueue(size_t capacity) : capacity_(capacity) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // False where the queue is full, or this caller has its share. A caller without a name shares
  // with nobody, and may fill the queue.
  [[nodiscard]] bool Push(const std::string& caller, Item item) {
    const auto found = by_caller_.find(caller);
    const size_t own = found == by_caller_.end() ? 0 : found->second->items.size();
    const size_t room = capacity_ - size_;
    if (room == 0 || (!caller.empty() && own > 0 && own >= room)) return false;
    const auto line =
        found == by_caller_.end() ? turns_.insert(turns_.end(), Line{caller, {}}) : found->second;
    if (found == by_caller_.end()) by_caller_.emplace(caller, line);
    line->items.push_back(std::move(item));
    ++size_;
    return true;
  }

  // The item whose turn it is. There must be one.
  Item Pop() {
    const auto line = turns_.begin();
    Item item = std::move(line->items.front());
    line->items.pop_front();
    --size_;
    if (!DropIfEmpty(line)) turns_.splice(turns_.end(), turns_, line);
    return item;
  }

  // The oldest item of a caller that `matches`, taken out of turn; nothing where none does. Costs
  // as much as he has items.
  template <typename Matches>
  std::optional<Item> Remove(const std::string& caller, Matches matches) {
    const auto found = by_caller_.find(caller);
    if (found == by_caller_.end()) return std::nullopt;
    const auto line = found->second;
    const auto position = std::find_if(line->items.begin(), line->items.end(), matches);
    if (position == line->items.end()) return std::nullopt;
    std::optional<Item> item = std::move(*position);
    line->items.erase(position);
    --size_;
    DropIfEmpty(line);
    return item;
  }

 private:
  struct Line {
    std::string caller;
    std::deque<Item> items;  // Never empty between calls.
  };

  bool DropIfEmpty(typename std::list<Line>::iterator line) {
    if (!line->items.empty()) return false;
    by_caller_.erase(line->caller);
    turns_.erase(line);
    return true;
  }

  const size_t capacity_;
  size_t size_ = 0;
  std::list<Line> turns_;  // The next first.
  std::unordered_map<std::string, typename std::list<Line>::iterator> by_caller_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_FAIR_QUEUE_H_
