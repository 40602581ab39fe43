#include "orders.h"

long Order::total() const { return cents; }

bool OrderBook::place(Order *order) {
    if (order->total() <= 0) return false;
    open_.add(order);
    return true;
}
