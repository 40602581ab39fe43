#pragma once
#include "list.h"

struct Payment {
    long cents;
    int account;
    long amount() const;
};

class Ledger {
public:
    bool post(Payment *payment);

private:
    List<Payment> posted_;
};
