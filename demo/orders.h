#pragma once
#include "list.h"

struct Order {
    long cents;
    int customer;
    long total() const;
};

class OrderBook {
public:
    bool place(Order *order);

private:
    List<Order> open_;
};
