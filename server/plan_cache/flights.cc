#include "server/plan_cache/flights.h"

#include <algorithm>
#include <utility>

#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

using Clock = std::chrono::steady_clock;

// How long a caller whose time is over waits for a search to tell what it has. Calls end so early
// that an answer then is in time.
constexpr std::chrono::milliseconds kGrace{10};
// A search that takes no longer is hardly ever shared to the end of somebody's time.
constexpr std::chrono::milliseconds kShort{20};

Flights::TimePoint After(Flights::TimePoint time, std::chrono::nanoseconds duration) {
  const auto left = Flights::TimePoint::max() - time;
  return left <= duration ? Flights::TimePoint::max()
                          : time + std::chrono::duration_cast<Clock::duration>(duration);
}

KeptAnswerPtr Failed(const absl::Status& status) { return MakeKeptFailure(status); }

KeptAnswerPtr TooLate() { return Failed(Error(Reason::kDeadlinePassed, "It waited too long.")); }

}  // namespace

// One search. Guarded by the mutex of Flights, but for what says otherwise.
struct Flights::Flight {
  Order order;                // Not changed.
  TimePoint made;             // Not changed.
  std::string caller;         // Whose turn it waits for; not changed.
  ThreadPool::Ticket ticket;  // Of its place in the queue; not changed.
  const std::shared_ptr<Interrupter> interrupter = std::make_shared<Interrupter>();
  std::vector<Ticket> tickets;
  std::optional<TimePoint> begun;
  bool open = false;
  bool store = false;
  std::shared_ptr<const SoFar> so_far;  // Null: nothing was told.
  std::atomic<bool> many{false};        // More than one passenger; set under the lock.
};

// What a search tells while several wait for it.
class Flights::Observer : public Question::Observer {
 public:
  Observer(Flights& flights, const FlightPtr& flight) : flights_(flights), flight_(flight) {}

  // Short searches are left alone while one caller waits. Of others what they have is always at
  // hand: another caller may come, and then the time of the first may end.
  bool WantsSoFar() const override {
    return flight_->many.load(std::memory_order_relaxed) || Clock::now() - start_ > kShort;
  }

  void OnSoFar(const SoFar& build) override {
    auto so_far = std::make_shared<const SoFar>(build);
    Deliveries deliveries;
    {
      MutexLock lock(flights_.mutex_);
      flight_->so_far.swap(so_far);
      const std::vector<Ticket> tickets = flight_->tickets;
      for (const Ticket ticket : tickets) {
        if (!flights_.passengers_.find(ticket)->second->overdue) continue;
        if (flight_->tickets.size() == 1) break;  // For whom the search was stopped.
        deliveries.push_back(flights_.Remove(ticket, nullptr));
      }
    }
    if (!deliveries.empty()) flights_.AnswerSoFar(flight_, std::move(deliveries));
  }

 private:
  Flights& flights_;
  const FlightPtr flight_;
  const TimePoint start_ = Clock::now();
};

Flights::Flights(ThreadPool& search_pool, ThreadPool& light_pool, DeadlineTimer& timer,
                 const Options& options, Keep keep, Listener* listener)
    : search_pool_(search_pool),
      light_pool_(light_pool),
      timer_(timer),
      options_(options),
      keep_(std::move(keep)),
      listener_(listener) {}

void Flights::Deliver(Deliveries deliveries) {
  for (Delivery& delivery : deliveries) {
    delivery.waiter.answer(std::move(delivery.answer), delivery.source);
  }
}

Flights::TimePoint Flights::EndOf(const Passenger& passenger) {
  const std::optional<TimePoint>& begun = passenger.flight->begun;
  if (!begun.has_value()) return passenger.waiter.end;
  return std::min(passenger.waiter.end,
                  After(std::max(*begun, passenger.boarded), passenger.waiter.budget));
}

void Flights::SetTimer(Ticket ticket, Passenger& passenger) {
  const TimePoint end = EndOf(passenger);
  if (end == TimePoint::max()) {
    passenger.timer.Drop();
    return;
  }
  passenger.timer = timer_.Call(end, [weak = weak_from_this(), ticket] {
    if (const std::shared_ptr<Flights> self = weak.lock()) self->OnTimeOver(ticket);
  });
}

Flights::FlightPtr Flights::FindOpen(const Order& order, TimePoint now) {
  const auto found = open_.find(*order.identity.form);
  if (found == open_.end()) return nullptr;
  for (const FlightPtr& flight : found->second) {
    const bool old = flight->begun.has_value() && now - *flight->begun >= options_.most_age;
    if (!old && flight->order.question->basis() == order.question->basis()) return flight;
  }
  return nullptr;
}

void Flights::Close(Flight& flight) {
  if (!flight.open) return;
  flight.open = false;
  const auto found = open_.find(*flight.order.identity.form);
  std::vector<FlightPtr>& all = found->second;
  all.erase(std::find_if(all.begin(), all.end(),
                         [&flight](const FlightPtr& one) { return one.get() == &flight; }));
  if (all.empty()) open_.erase(found);
}

Flights::Delivery Flights::Remove(Ticket ticket, KeptAnswerPtr answer) {
  const auto found = passengers_.find(ticket);
  const std::unique_ptr<Passenger> passenger = std::move(found->second);
  passengers_.erase(found);
  Flight& flight = *passenger->flight;
  flight.tickets.erase(std::find(flight.tickets.begin(), flight.tickets.end(), ticket));
  flight.many.store(flight.tickets.size() > 1, std::memory_order_relaxed);
  if (flight.tickets.empty()) {
    Close(flight);
    flights_.erase(std::find(flights_.begin(), flights_.end(), passenger->flight));
  }
  return {std::move(passenger->waiter), std::move(answer),
          passenger->shares ? v1::ANSWER_SOURCE_SHARED_SEARCH : v1::ANSWER_SOURCE_SEARCH};
}

void Flights::RemoveAll(Flight& flight, const KeptAnswerPtr& answer, Deliveries& deliveries) {
  const std::vector<Ticket> tickets = flight.tickets;
  for (const Ticket ticket : tickets) deliveries.push_back(Remove(ticket, answer));
}

void Flights::Join(Ticket ticket, Order order, Waiter waiter,
                   absl::FunctionRef<KeptAnswerPtr()> recheck, Told told) {
  const TimePoint now = Clock::now();
  FlightPtr flight;
  bool leads = false;
  Waiter left;  // Where he does not wait.
  KeptAnswerPtr refusal;
  KeptAnswerPtr kept;
  {
    MutexLock lock(mutex_);
    if (ended_) {
      refusal = Failed(Error(Reason::kDraining));
    } else if (waiter.cancelled != nullptr &&
               waiter.cancelled->cause() == Interrupter::Cause::kCancelled) {
      refusal = Failed(Error(Reason::kCallCancelled));
    } else if (waiter.end <= now) {
      refusal = TooLate();
    } else if (passengers_.size() >= options_.most_waiters) {
      refusal = Failed(QueueFullError(options_.retry_after));
    } else {
      if (!order.alone) flight = FindOpen(order, now);
      if (flight == nullptr && !order.alone) kept = recheck();
    }
    if (refusal == nullptr && kept == nullptr) {
      leads = flight == nullptr;
      if (leads) {
        flight = std::make_shared<Flight>();
        flight->order = std::move(order);
        flight->made = now;
        flight->caller = waiter.caller;
        flight->ticket = search_pool_.NewTicket();
        flights_.push_back(flight);
        if (!flight->order.alone) {
          flight->open = true;
          open_[*flight->order.identity.form].push_back(flight);
        }
      }
      auto passenger = std::make_unique<Passenger>();
      passenger->flight = flight;
      passenger->waiter = std::move(waiter);
      passenger->boarded = now;
      passenger->shares = !leads;
      flight->store = flight->store || passenger->waiter.store;
      flight->tickets.push_back(ticket);
      flight->many.store(flight->tickets.size() > 1, std::memory_order_relaxed);
      SetTimer(ticket, *passenger);
      passengers_.emplace(ticket, std::move(passenger));
      told(leads ? Boarded::kLeads : Boarded::kShares);
    } else {
      left = std::move(waiter);
    }
  }
  if (refusal != nullptr) {
    told(Boarded::kRefused);
    return left.answer(std::move(refusal), v1::ANSWER_SOURCE_UNSPECIFIED);
  }
  if (kept != nullptr) {
    told(Boarded::kKept);
    return left.answer(std::move(kept), v1::ANSWER_SOURCE_CACHE);
  }
  if (!leads) return;
  const std::shared_ptr<Flights> self = shared_from_this();
  if (search_pool_.Submit([self, flight] { self->Fly(flight); }, flight->caller, flight->ticket)) {
    LeaveQueueIfEmpty(*flight);  // Nobody may wait any more.
    return;
  }
  Deliveries deliveries;
  {
    MutexLock lock(mutex_);
    RemoveAll(*flight, Failed(QueueFullError(options_.retry_after)), deliveries);
  }
  Deliver(std::move(deliveries));
}

void Flights::LeaveQueueIfEmpty(Flight& flight) {
  {
    MutexLock lock(mutex_);
    if (!flight.tickets.empty() || flight.begun.has_value()) return;
  }
  // Nobody can board it any more. The task holds it and this: neither ends here.
  (void)search_pool_.Withdraw(flight.caller, flight.ticket);
}

void Flights::Cancel(Ticket ticket) {
  Deliveries deliveries;
  FlightPtr flight;
  {
    MutexLock lock(mutex_);
    const auto found = passengers_.find(ticket);
    if (found == passengers_.end()) return;
    flight = found->second->flight;
    deliveries.push_back(Remove(ticket, Failed(Error(Reason::kCallCancelled))));
    if (flight->tickets.empty()) flight->interrupter->Trip(Interrupter::Cause::kCancelled);
  }
  LeaveQueueIfEmpty(*flight);
  Deliver(std::move(deliveries));
}

void Flights::EndAll() {
  Deliveries deliveries;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    const std::vector<FlightPtr> flights = flights_;
    for (const FlightPtr& flight : flights) {
      Close(*flight);
      flight->interrupter->Trip(Interrupter::Cause::kTime);
      if (flight->begun.has_value()) continue;
      RemoveAll(*flight, Failed(Error(Reason::kDraining)), deliveries);
    }
  }
  Deliver(std::move(deliveries));
}

void Flights::Fly(const FlightPtr& flight) {
  const TimePoint start = Clock::now();
  {
    MutexLock lock(mutex_);
    if (flight->tickets.empty()) return;
    ++at_work_;
    flight->begun = start;
    for (const Ticket ticket : flight->tickets) SetTimer(ticket, *passengers_.find(ticket)->second);
  }
  if (listener_ != nullptr) listener_->OnStart(start - flight->made);
  Observer observer(*this, flight);
  const KeptAnswerPtr kept = flight->order.question->Answer(flight->interrupter, observer);
  // A search that was not stopped by then was not cut short either.
  const bool whole = !flight->interrupter->tripped();
  bool store = false;
  {
    MutexLock lock(mutex_);
    store = flight->store;
  }
  if (store && whole && MayBeKept(kept->status)) keep_(flight->order, kept);
  Deliveries deliveries;
  {
    MutexLock lock(mutex_);
    RemoveAll(*flight, kept, deliveries);
  }
  Deliver(std::move(deliveries));
  LeaveWork();
}

void Flights::LeaveWork() {
  MutexLock lock(mutex_);
  if (--at_work_ == 0) idle_.NotifyAll();
}

void Flights::End() {
  EndAll();
  MutexLock lock(mutex_);
  while (at_work_ > 0) idle_.Wait(mutex_);
}

void Flights::OnTimeOver(Ticket ticket) {
  Deliveries deliveries;
  FlightPtr flight;
  bool told = false;
  {
    MutexLock lock(mutex_);
    const auto found = passengers_.find(ticket);
    if (found == passengers_.end()) return;
    Passenger& passenger = *found->second;
    const TimePoint now = Clock::now();
    if (EndOf(passenger) > now) return SetTimer(ticket, passenger);
    flight = passenger.flight;
    if (flight->begun.has_value() && flight->tickets.size() == 1) {
      // The search answers with what it has.
      Close(*flight);
      flight->interrupter->Trip(Interrupter::Cause::kTime);
      return;
    }
    told = flight->so_far != nullptr;
    if (flight->begun.has_value() && !told && !passenger.overdue) {
      // It had its search to itself until just now. What that has is told any moment.
      passenger.overdue = true;
      passenger.timer = timer_.Call(now + kGrace, [weak = weak_from_this(), ticket] {
        if (const std::shared_ptr<Flights> self = weak.lock()) self->OnTimeOver(ticket);
      });
      return;
    }
    deliveries.push_back(Remove(ticket, told ? nullptr : TooLate()));
    if (flight->tickets.empty()) flight->interrupter->Trip(Interrupter::Cause::kTime);
    ++at_work_;
  }
  LeaveQueueIfEmpty(*flight);
  if (told) {
    AnswerSoFar(flight, std::move(deliveries));
  } else {
    Deliver(std::move(deliveries));
  }
  LeaveWork();
}

void Flights::AnswerSoFar(const FlightPtr& flight, Deliveries deliveries) {
  {
    MutexLock lock(mutex_);
    ++at_work_;
  }
  auto answer = [this, flight, deliveries = std::move(deliveries)]() mutable {
    std::shared_ptr<const SoFar> so_far;
    {
      MutexLock lock(mutex_);
      so_far = flight->so_far;
    }
    const KeptAnswerPtr kept = (*so_far)();
    for (Delivery& delivery : deliveries) delivery.answer = kept;
    Deliver(std::move(deliveries));
    LeaveWork();
  };
  // Building takes milliseconds. Where too much waits already, better late than never.
  auto task = std::make_shared<decltype(answer)>(std::move(answer));
  if (!light_pool_.Submit([self = shared_from_this(), task] { (*task)(); })) (*task)();
}

size_t Flights::flying() const {
  MutexLock lock(mutex_);
  return flights_.size();
}

size_t Flights::waiting() const {
  MutexLock lock(mutex_);
  return passengers_.size();
}

}  // namespace hapmoe::server
