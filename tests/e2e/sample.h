// Included before every source of a test: SAMPLE() prints the stack, and is a call, never a jump. SAMPLE_OBJECT() in a
// method and HOLD_OBJECT(how many frames further in the next sample is taken) make its vtable pointer known.
#pragma once
#define NOINLINE __attribute__((noinline))
#ifdef __cplusplus
extern "C" void record_stack();
extern "C" const void *sampled_objects[8];
#define SAMPLE() (record_stack(), ({ __asm__ volatile(""); }))
#define HOLD_OBJECT(depth) (sampled_objects[depth] = this)
#define SAMPLE_OBJECT() (HOLD_OBJECT(0), record_stack(), sampled_objects[0] = nullptr)
#endif
