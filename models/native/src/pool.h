// Threads that share the work of one kernel.
#pragma once

#include <functional>

namespace nightingale {

// Number of threads that `parallel` uses at most, the caller included.
int pool_size();

// Bound the threads of `parallel`, the caller included. Call it before the first `parallel`.
void resize_pool(int size);

// Call work(k) for every k in [0, count), on the caller's thread and those of the pool, and return after the last.
// A caller that finds the pool in use by another does all the work itself.
void parallel(int count, const std::function<void(int)>& work);

}  // namespace nightingale
