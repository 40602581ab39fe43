// Included before every source of a test: SAMPLE() prints the stack, and is a call, never a jump.
#pragma once
extern "C" void record_stack();
#define NOINLINE __attribute__((noinline))
#define SAMPLE() (record_stack(), ({ __asm__ volatile(""); }))
