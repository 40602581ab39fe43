#pragma once
#include "list.h"

struct Session {
    int user;
};

class Sessions {
public:
    void open(Session *session);

private:
    List<Session> live_;
    int opened_ = 0;
};
