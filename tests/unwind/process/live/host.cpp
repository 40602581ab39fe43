// A process to look into. It does what its standard input says, a line each, and answers with a line of addresses.
//   load PATH NAME             dlopen: load bias, and the address of a function in it
//   unload NUMBER              dlclose the NUMBERth that was loaded
//   map OFFSET SIZE NAME       make a function in memory, and tell of it in /tmp/perf-PID.map: its address
//   dump OFFSET SIZE LINE NAME make a function in memory, and tell of it in jit-PID.dump, which stays mapped: likewise
//   copy                       copy the code of one page of the program into anonymous memory at the same place
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __attribute__((noinline)) int inner_function(int value) { return value * 3 + 1; }
extern "C" __attribute__((visibility("default"), noinline)) int outer_function(int value) { return inner_function(value) + 2; }

static unsigned char *arena;

static unsigned char *make(size_t offset, size_t size) {
    memset(arena + offset, 0x90, size);
    arena[offset + size - 1] = 0xc3;
    reinterpret_cast<void (*)()>(arena + offset)();
    return arena + offset;
}

static void tell_map(unsigned char *code, size_t size, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *file = fopen(path, "a");
    fprintf(file, "%zx %zx %s\n", size_t(code), size, name);
    fclose(file);
}

static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void tell_dump(unsigned char *code, uint64_t size, unsigned line, const char *name) {
    static FILE *file;
    if (!file) {
        char path[64];
        snprintf(path, sizeof path, "jit-%d.dump", getpid());
        file = fopen(path, "w+");
        uint32_t header[6] = {0x4A695444, 1, 40, 62, 0, uint32_t(getpid())};
        uint64_t times[2] = {now(), 0};
        fwrite(header, sizeof header, 1, file);
        fwrite(times, sizeof times, 1, file);
        fflush(file);
        mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0);
    }
    uint32_t id = 2, bytes = 16 + 16 + 16 + 5;
    uint64_t time = now(), address = uint64_t(code), count = 1;
    fwrite(&id, 4, 1, file), fwrite(&bytes, 4, 1, file), fwrite(&time, 8, 1, file);
    fwrite(&address, 8, 1, file), fwrite(&count, 8, 1, file);
    uint32_t place[2] = {line, 0};
    fwrite(&address, 8, 1, file), fwrite(place, 8, 1, file), fwrite("a.js", 5, 1, file);
    static uint64_t index;
    id = 0, bytes = uint32_t(16 + 40 + strlen(name) + 1 + size), time = now(), ++index;
    uint32_t who[2] = {uint32_t(getpid()), uint32_t(syscall(SYS_gettid))};
    fwrite(&id, 4, 1, file), fwrite(&bytes, 4, 1, file), fwrite(&time, 8, 1, file), fwrite(who, 8, 1, file);
    fwrite(&address, 8, 1, file), fwrite(&address, 8, 1, file), fwrite(&size, 8, 1, file), fwrite(&index, 8, 1, file);
    fwrite(name, strlen(name) + 1, 1, file), fwrite(code, size, 1, file);
    fflush(file);
}

int main() {
    arena = static_cast<unsigned char *>(
        mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void *vdso = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_NOW);
    printf("%p %p %p %p\n", arena, reinterpret_cast<void *>(inner_function), reinterpret_cast<void *>(outer_function),
           vdso ? dlsym(vdso, "__vdso_clock_gettime") : nullptr);
    fflush(stdout);
    static void *loaded[64];
    int count = 0;
    char line[4096], text[4096], name[256];
    size_t offset, size;
    unsigned number;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "load %4095s %255s", text, name) == 2) {
            void *handle = loaded[count++] = dlopen(text, RTLD_NOW);
            if (!handle) return fprintf(stderr, "%s\n", dlerror()), 1;
            printf("%#zx %p\n", size_t(static_cast<link_map *>(handle)->l_addr), dlsym(handle, name));
        } else if (sscanf(line, "unload %u", &number) == 1) {
            printf("%d\n", dlclose(loaded[number]));
        } else if (sscanf(line, "map %zu %zu %255[^\n]", &offset, &size, name) == 3) {
            unsigned char *code = make(offset, size);
            tell_map(code, size, name);
            printf("%p\n", code);
        } else if (sscanf(line, "dump %zu %zu %u %255[^\n]", &offset, &size, &number, name) == 4) {
            unsigned char *code = make(offset, size);
            tell_dump(code, size, number, name);
            printf("%p\n", code);
        } else if (!strncmp(line, "copy", 4)) {
            auto *page = reinterpret_cast<unsigned char *>(uintptr_t(inner_function) & ~uintptr_t(4095));
            void *copy = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(copy, page, 4096);
            mprotect(copy, 4096, PROT_READ | PROT_EXEC);
            mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page);
            printf("%p\n", static_cast<void *>(page));
        }
        fflush(stdout);
    }
    return 0;
}
