// Prints its caller's stack as one line of link-time addresses, innermost first, as `icf resolve` reads it: relative to the
// module named by $SAMPLE_MODULE, by default the program; `?` is a frame elsewhere. With $SAMPLE_MODULES the addresses are
// run-time ones, and the modules are written to the file of that name, as `icf resolve --modules` reads them.
#include <execinfo.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_module(dl_phdr_info *info, size_t, void *out) {
    FILE *file = static_cast<FILE *>(out);
    char program[4096] = "";
    if (!*info->dlpi_name && readlink("/proc/self/exe", program, sizeof program - 1) < 0) abort();
    uintptr_t low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr < low) low = info->dlpi_phdr[i].p_vaddr;
    fprintf(file, "%s{\"path\": \"%s\", \"load_address\": \"%#zx\"}", ftell(file) > 1 ? ",\n" : "",
            *info->dlpi_name ? info->dlpi_name : program, size_t(info->dlpi_addr + low) & ~size_t(4095));
    return 0;
}

static void write_modules(const char *path) {
    FILE *file = fopen(path, "w");
    fputs("[", file);
    dl_iterate_phdr(write_module, file);
    fputs("]\n", file);
    fclose(file);
}

extern "C" const void *sampled_objects[8];
const void *sampled_objects[8];  // the objects that the caller, its caller ... were called for; null: not known

struct Module { const char *name; uintptr_t base, start, end; };

static int find_module(dl_phdr_info *info, size_t, void *out) {
    Module *module = static_cast<Module *>(out);
    const char *slash = strrchr(info->dlpi_name, '/');  // the program's own name is empty
    if (strcmp(slash ? slash + 1 : info->dlpi_name, module->name)) return 0;
    module->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &load = info->dlpi_phdr[i];
        if (load.p_type != PT_LOAD) continue;
        if (load.p_vaddr < module->start) module->start = load.p_vaddr;
        if (load.p_vaddr + load.p_memsz > module->end) module->end = load.p_vaddr + load.p_memsz;
    }
    return 1;
}

extern "C" __attribute__((noinline)) void record_stack() {
    const char *name = getenv("SAMPLE_MODULE");
    Module module = {name ? name : "", 0, UINTPTR_MAX, 0};
    dl_iterate_phdr(find_module, &module);
    void *frames[64];
    int count = backtrace(frames, 64);
    if (const char *modules = getenv("SAMPLE_MODULES")) {
        write_modules(modules);
        module = {"", 0, 0, UINTPTR_MAX};
    }
    for (int i = 0; i < count; ++i) {
        uintptr_t vaddr = reinterpret_cast<uintptr_t>(frames[i]) - module.base;
        if (vaddr >= module.start && vaddr < module.end) printf("%#zx", size_t(vaddr)); else printf("?");
        const void *object = i && i <= 8 && getenv("SAMPLE_VPTRS") ? sampled_objects[i - 1] : nullptr;
        if (object) printf("@vptr=%#zx", size_t(*static_cast<const uintptr_t *>(object) - module.base));
        printf(" ");
    }
    printf("\n");
}
