// SPDX-License-Identifier: MIT
// NEON instructions as text for asm statements: the one dialect of all kernels in assembly.
// Only for *_neon.h.
//
// In these macros a register is its number, or a macro of the kernel that names it; a pointer is
// the name of an operand of the asm statement (b stands for %[b]); `shape` says how a register is
// divided: 4s for four floats, 8h for eight numbers of f16, 16b for bytes. Kernels name their own
// macros with a prefix of their own (OORT_ROW_, OORT_DOT_, …), so that none has to be undefined.
//
// Each kernel in assembly has a twin in intrinsics, which gives the same results bit by bit. The
// twin runs where the compiler has no asm statements in GNU's form, and where OORT_NO_ASSEMBLY is
// defined: test/assembly compares both.
#pragma once

#include <arm_neon.h>

#if defined(__GNUC__) && !defined(OORT_NO_ASSEMBLY)
#define OORT_HAS_ASSEMBLY 1
#else
#define OORT_HAS_ASSEMBLY 0
#endif

/// Loads an array of 16 bytes into a register at this place of the program, and not before. GCC 12
/// moves plain loads to the top, where they take registers that the arithmetic in between needs.
#if OORT_HAS_ASSEMBLY
#define OORT_LOAD_IN_PLACE(value, array) asm volatile("ldr %q0, %1" : "=w"(value) : "m"(array))
#else
#define OORT_LOAD_IN_PLACE(value, array) __builtin_memcpy(&(value), &(array), 16)
#endif

// clang-format off
// --- Names ---------------------------------------------------------------------------------------
#define OORT_ASM_STRING(...) #__VA_ARGS__
/// The text of an argument, after the macros in it.
#define OORT_ASM_TEXT(...) OORT_ASM_STRING(__VA_ARGS__)
#define OORT_ASM_V(number) "v" OORT_ASM_TEXT(number)
#define OORT_ASM_Q(number) "q" OORT_ASM_TEXT(number)
/// An operand of the asm statement, in a register that the compiler has chosen.
#define OORT_ASM_OPERAND(name) "%[" OORT_ASM_TEXT(name) "]"
#define OORT_ASM_AT(pointer, offset) "[" OORT_ASM_OPERAND(pointer) ", #" OORT_ASM_TEXT(offset) "]"
#define OORT_ASM_AT_THEN_MOVE(pointer, bytes) "[" OORT_ASM_OPERAND(pointer) "], #" OORT_ASM_TEXT(bytes)
/// What an asm statement lists that overwrites all vector registers.
#define OORT_ASM_ALL_VECTORS                                                                      \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",  \
  "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",      \
  "v28", "v29", "v30", "v31"

// --- Loads and stores ----------------------------------------------------------------------------
#define OORT_ASM_LOAD(to, pointer, offset) "ldr " OORT_ASM_Q(to) ", " OORT_ASM_AT(pointer, offset) "\n"
#define OORT_ASM_LOAD2(to0, to1, pointer, offset) \
  "ldp " OORT_ASM_Q(to0) ", " OORT_ASM_Q(to1) ", " OORT_ASM_AT(pointer, offset) "\n"
/// Loads, and moves the pointer behind what was loaded.
#define OORT_ASM_LOAD_NEXT(to, pointer) "ldr " OORT_ASM_Q(to) ", " OORT_ASM_AT_THEN_MOVE(pointer, 16) "\n"
#define OORT_ASM_LOAD2_NEXT(to0, to1, pointer) \
  "ldp " OORT_ASM_Q(to0) ", " OORT_ASM_Q(to1) ", " OORT_ASM_AT_THEN_MOVE(pointer, 32) "\n"
/// One element of `bytes` bytes into the first lane; `letter` is s for four bytes, h for two.
#define OORT_ASM_LOAD_ONE_NEXT(letter, to, pointer, bytes) \
  "ldr " #letter OORT_ASM_TEXT(to) ", " OORT_ASM_AT_THEN_MOVE(pointer, bytes) "\n"
#define OORT_ASM_STORE(from, pointer, offset) "str " OORT_ASM_Q(from) ", " OORT_ASM_AT(pointer, offset) "\n"
#define OORT_ASM_STORE2(from0, from1, pointer, offset) \
  "stp " OORT_ASM_Q(from0) ", " OORT_ASM_Q(from1) ", " OORT_ASM_AT(pointer, offset) "\n"
/// `level` is pldl1keep, pldl2keep or pldl3keep.
#define OORT_ASM_PREFETCH(level, pointer, offset) "prfm " #level ", " OORT_ASM_AT(pointer, offset) "\n"

// --- Pointers and counters -----------------------------------------------------------------------
#define OORT_ASM_LOAD_POINTER(to, from) "ldr %[" #to "], " OORT_ASM_AT_THEN_MOVE(from, 8) "\n"
#define OORT_ASM_LOAD_POINTERS(to0, to1, from) \
  "ldp %[" #to0 "], %[" #to1 "], " OORT_ASM_AT_THEN_MOVE(from, 16) "\n"
/// pointer += the operand `step`, in bytes.
#define OORT_ASM_ADVANCE(pointer, step) "add %[" #pointer "], %[" #pointer "], %[" #step "]\n"
#define OORT_ASM_ADVANCE_BY(pointer, bytes) \
  "add %[" #pointer "], %[" #pointer "], #" OORT_ASM_TEXT(bytes) "\n"
/// Counts down by one, for a branch that follows.
#define OORT_ASM_COUNT_DOWN(counter) "subs %[" #counter "], %[" #counter "], #1\n"

// --- Arithmetic ----------------------------------------------------------------------------------
/// fadd, fmul, fmax, fmin, mul, mla, and, …
#define OORT_ASM_BINARY(name, shape, to, a, b) \
  #name " " OORT_ASM_V(to) "." #shape ", " OORT_ASM_V(a) "." #shape ", " OORT_ASM_V(b) "." #shape "\n"
#define OORT_ASM_SHIFT_RIGHT(shape, to, a, bits) \
  "ushr " OORT_ASM_V(to) "." #shape ", " OORT_ASM_V(a) "." #shape ", #" #bits "\n"
#define OORT_ASM_COPY(to, from) "mov " OORT_ASM_V(to) ".16b, " OORT_ASM_V(from) ".16b\n"
/// All lanes are the number `value`.
#define OORT_ASM_SET(shape, to, value) "movi " OORT_ASM_V(to) "." #shape ", #" #value "\n"
/// sum += a * b[lane]
#define OORT_ASM_FMLA_F32(sum, a, b, lane) \
  "fmla " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(a) ".4s, " OORT_ASM_V(b) ".s[" #lane "]\n"
#define OORT_ASM_FMLA_F16(sum, a, b, lane) \
  "fmla " OORT_ASM_V(sum) ".8h, " OORT_ASM_V(a) ".8h, " OORT_ASM_V(b) ".h[" #lane "]\n"
#define OORT_ASM_FMUL_LANE(to, a, b, lane) \
  "fmul " OORT_ASM_V(to) ".4s, " OORT_ASM_V(a) ".4s, " OORT_ASM_V(b) ".s[" #lane "]\n"
/// sum += the lower four of a, in f16, times b[lane], in f32.
#define OORT_ASM_FMLAL(sum, a, b, lane) \
  "fmlal " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(a) ".4h, " OORT_ASM_V(b) ".h[" #lane "]\n"
/// sum[i] += the four products of bytes 4 i to 4 i + 3 of a with those of b[lane], a lane of four
/// bytes. `name` is sdot, or usdot for an a without sign. Here registers are texts, since they may
/// be operands.
#define OORT_ASM_DOT_OF(name, sum, a, b, lane) \
  #name " " sum ".4s, " a ".16b, " b ".4b[" #lane "]\n"
#define OORT_ASM_DOT(name, sum, a, b, lane) \
  OORT_ASM_DOT_OF(name, OORT_ASM_V(sum), OORT_ASM_V(a), OORT_ASM_V(b), lane)

// --- Repetitions ---------------------------------------------------------------------------------
// apply(i, …) for each i below the number. There are two of the same kind because a macro is not
// expanded within itself: rows may hold vectors.
#define OORT_ASM_NOTHING(...)
#define OORT_ASM_ROWS_1(apply, ...) apply(0 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_2(apply, ...) \
  OORT_ASM_ROWS_1(apply __VA_OPT__(,) __VA_ARGS__) apply(1 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_3(apply, ...) \
  OORT_ASM_ROWS_2(apply __VA_OPT__(,) __VA_ARGS__) apply(2 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_4(apply, ...) \
  OORT_ASM_ROWS_3(apply __VA_OPT__(,) __VA_ARGS__) apply(3 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_5(apply, ...) \
  OORT_ASM_ROWS_4(apply __VA_OPT__(,) __VA_ARGS__) apply(4 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_6(apply, ...) \
  OORT_ASM_ROWS_5(apply __VA_OPT__(,) __VA_ARGS__) apply(5 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_8(apply, ...)                                                     \
  OORT_ASM_ROWS_6(apply __VA_OPT__(,) __VA_ARGS__) apply(6 __VA_OPT__(,) __VA_ARGS__) \
  apply(7 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_ROWS_10(apply, ...)                                                    \
  OORT_ASM_ROWS_8(apply __VA_OPT__(,) __VA_ARGS__) apply(8 __VA_OPT__(,) __VA_ARGS__) \
  apply(9 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_VECTORS_1(apply, ...) apply(0 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_VECTORS_2(apply, ...) \
  OORT_ASM_VECTORS_1(apply __VA_OPT__(,) __VA_ARGS__) apply(1 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_VECTORS_3(apply, ...) \
  OORT_ASM_VECTORS_2(apply __VA_OPT__(,) __VA_ARGS__) apply(2 __VA_OPT__(,) __VA_ARGS__)
#define OORT_ASM_VECTORS_4(apply, ...) \
  OORT_ASM_VECTORS_3(apply __VA_OPT__(,) __VA_ARGS__) apply(3 __VA_OPT__(,) __VA_ARGS__)
// clang-format on
