// A heap profiler in twenty lines: one line for each sampled allocation, with its stack as link-time
// addresses, innermost first. `?` stands for a frame outside of the program.
#include <execinfo.h>
#include <link.h>
#include <cstdint>
#include <cstdio>

namespace {

struct Program {
    std::uintptr_t base = 0, start = UINTPTR_MAX, end = 0;
};

int first_module(dl_phdr_info *info, std::size_t, void *out) {
    Program *program = static_cast<Program *>(out);
    program->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD) continue;
        if (segment.p_vaddr < program->start) program->start = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_memsz > program->end) program->end = segment.p_vaddr + segment.p_memsz;
    }
    return 1;  // the program itself comes first
}

}  // namespace

void sample_allocation(std::size_t size_bytes) {
    Program program;
    dl_iterate_phdr(first_module, &program);
    void *frames[32];
    int count = backtrace(frames, 32);
    for (int i = 0; i < count; ++i) {
        std::uintptr_t vaddr = reinterpret_cast<std::uintptr_t>(frames[i]) - program.base;
        if (vaddr >= program.start && vaddr < program.end)
            std::printf("%#zx ", vaddr);
        else
            std::printf("? ");
    }
    std::printf("# %zu bytes\n", size_bytes);
}
