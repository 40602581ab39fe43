/* Two threads, a fork, an exec: what perf.data says of processes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) void spin(unsigned long count) {
    for (unsigned long i = 0; i < count; i++) sink += i;
}
__attribute__((noinline)) void one(void) { spin(20000000); sink++; }
__attribute__((noinline)) void three(void) { spin(60000000); sink++; }
void *thread(void *unused) { (void)unused; three(); return 0; }

int main(int argc, char **argv) {
    if (argc > 1) { one(); return 0; }
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    one();
    pthread_join(other, 0);
    if (!fork()) { one(); execl(argv[0], argv[0], "again", (char *)0); }
    wait(0);
    return 0;
}
