// A growable list of pointers. Every List<T> compiles to the same instructions, because a pointer is a
// pointer: after the link only one of them is left.
#pragma once
#include <cstdlib>

void sample_allocation(std::size_t size_bytes);  // the heap profiler, in sampler.cpp

template <class T>
class List {
public:
    [[gnu::noinline]] void add(T *item) {
        if (count_ == room_) grow();
        items_[count_++] = item;
    }
    T *last() const { return count_ ? items_[count_ - 1] : nullptr; }

private:
    [[gnu::noinline]] void grow() {
        room_ = room_ ? 2 * room_ : 4;
        sample_allocation(room_ * sizeof(T *));
        items_ = static_cast<T **>(std::realloc(items_, room_ * sizeof(T *)));
    }

    T **items_ = nullptr;
    std::size_t count_ = 0, room_ = 0;
};
