/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Structs, enums and limits that the kernel side and user space share.
 *
 * Numbers are enums, not #defines, because only enums reach Go through BTF. Every struct that both sides exchange has
 * its size asserted here; the Go side is generated from the same BTF (see ebpf/kernel).
 */
#ifndef HEADWATER_ABI_H
#define HEADWATER_ABI_H

#include "samples.h"

/* Never read: it puts the types into BTF, from which the Go constants are generated. */
struct abi_enums {
	enum limits limits;
	enum outcome outcome;
	enum cfa_kind cfa_kind;
	enum fp_rule fp_rule;
	enum ra_rule ra_rule;
	enum row_page_state row_page_state;
	enum row_page_mark row_page_mark;
	enum process_flags process_flags;
	enum frame_flags frame_flags;
	enum sample_flags sample_flags;
	enum sample_kind sample_kind;
	enum config_flags config_flags;
	enum path_op path_op;
	enum thread_owner thread_owner;
	enum chain_end chain_end;
	struct sample sample;
};

#endif
