#include "payments.h"

long Payment::amount() const { return cents; }

bool Ledger::post(Payment *payment) {
    if (payment->amount() <= 0) return false;
    posted_.add(payment);
    return true;
}
