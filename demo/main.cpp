// A shop's afternoon: sessions open, orders come in, payments follow. Prints the stack of each allocation.
#include "orders.h"
#include "payments.h"
#include "sessions.h"

int main() {
    OrderBook book;
    Ledger ledger;
    Sessions sessions;
    Session session{7};
    Order order{1999, 7};
    Payment payment{1999, 42};

    sessions.open(&session);
    bool placed = book.place(&order);
    bool posted = ledger.post(&payment);
    return placed && posted ? 0 : 1;
}
