#include "sessions.h"

void Sessions::open(Session *session) {
    ++opened_;
    live_.add(session);
}
