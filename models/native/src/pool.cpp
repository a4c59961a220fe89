#include "pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

namespace nightingale {
namespace {

constexpr int kMostThreads = 8;
// A thread that waits for work looks this many times before it sleeps: some 20 microseconds.
constexpr int kSpins = 300;

// Shown by tools that list threads. Systems cut names of more than 15 letters.
void name_thread(int number) {
#if defined(__linux__)
  char name[16];
  std::snprintf(name, sizeof name, "nightingale-%d", number % 100);
  pthread_setname_np(pthread_self(), name);
#endif
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

class Pool {
 public:
  explicit Pool(int size) {
    try {
      for (; threads_ < size - 1; ++threads_) {
        std::thread([this, number = threads_ + 1] {
          name_thread(number);
          serve();
        }).detach();
      }
    } catch (const std::system_error&) {
      // The system gives no more threads: those that there are do the work.
    }
  }

  void run(int count, const std::function<void(int)>& work) {
    std::unique_lock<std::mutex> only(caller_, std::try_to_lock);
    if (!only || !threads_ || count < 2) {
      for (int k = 0; k < count; ++k) work(k);
      return;
    }
    work_.store(&work, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ++turn_;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state_.store(turn_ << 32 | static_cast<uint64_t>(count), std::memory_order_release);
    }
    if (sleeping_.load()) wake_.notify_all();
    take(turn_);
    // Only pieces that others have begun are waited for, never a thread that has not woken up yet.
    for (int spins = 0; done_.load(std::memory_order_acquire) != count && spins < kSpins; ++spins) relax();
    if (done_.load(std::memory_order_acquire) == count) return;
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_.store(true);
    finished_.wait(lock, [&] { return done_.load() == count; });
    waiting_.store(false);
  }

 private:
  // Do pieces of a turn until none is left.
  void take(uint64_t turn) {
    uint64_t state = state_.load(std::memory_order_acquire);
    while (state >> 32 == turn && static_cast<uint32_t>(state)) {
      // A piece is left, so the caller still waits and the work is still this turn's, if the exchange succeeds.
      const auto* work = work_.load(std::memory_order_relaxed);
      if (!state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel)) continue;
      (*work)(static_cast<int>(static_cast<uint32_t>(state) - 1));
      done_.fetch_add(1);
      if (waiting_.load()) {
        std::lock_guard<std::mutex> lock(mutex_);
        finished_.notify_one();
      }
      state = state_.load(std::memory_order_acquire);
    }
  }

  uint64_t turn() const { return state_.load(std::memory_order_acquire) >> 32; }

  void serve() {
    uint64_t seen = 0;
    for (;;) {
      int spins = 0;
      while (turn() == seen && ++spins < kSpins) relax();
      if (turn() == seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [&] { return turn() != seen; });
        sleeping_.fetch_sub(1);
      }
      seen = turn();
      take(seen);
    }
  }

  int threads_ = 0;  // beside the caller's
  std::mutex caller_, mutex_;
  std::condition_variable wake_, finished_;
  // The number of the turn, and below it the pieces that nobody has begun.
  std::atomic<uint64_t> state_{0};
  std::atomic<int> done_{0}, sleeping_{0};
  std::atomic<bool> waiting_{false};
  std::atomic<const std::function<void(int)>*> work_{nullptr};
  uint64_t turn_ = 0;  // the caller's
};

std::atomic<int> wanted{0};
std::mutex making;
// Never destroyed: its threads run until the process ends.
std::atomic<Pool*> made{nullptr};

// A child of fork() has none of its parent's threads, and locks that nobody frees. It makes a pool of its own.
void forget() {
  new (&making) std::mutex;
  made.store(nullptr);
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, forget);

Pool& pool() {
  Pool* found = made.load(std::memory_order_acquire);
  if (found) return *found;
  std::lock_guard<std::mutex> lock(making);
  if ((found = made.load())) return *found;
  made.store(found = new Pool(pool_size()));
  return *found;
}

}  // namespace

int pool_size() {
  const int bound = wanted.load();
  return std::min(kMostThreads, bound ? bound : std::max(1, processors()));
}

void resize_pool(int size) { wanted.store(std::max(1, size)); }

void parallel(int count, const std::function<void(int)>& work) { pool().run(count, work); }

}  // namespace nightingale
