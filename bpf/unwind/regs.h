/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Registers at the sampled point, of the architecture that the program is for. */
#if defined(__TARGET_ARCH_x86)
#include "regs_x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "regs_arm64.h"
#else
#error "no registers known for this architecture"
#endif
