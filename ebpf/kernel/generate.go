// Package kernel is the interface to the kernel: it loads the BPF programs of bpf/, attaches them, writes their maps
// and reads their records. It is the only importer of cilium/ebpf.
package kernel

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 -type limits -type outcome -type cfa_kind -type fp_rule -type ra_rule -type row_page_state -type row_page_mark -type process_flags -type frame_flags -type sample_flags -type sample_kind -type config_flags -type path_op -type thread_owner -type chain_end -type block_word -type interpreter -type program_key -type program -type process -type counters -type sample profiler ../../bpf/profiler.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 -type thread_flags -type thread -type thread_mark threads ../../bpf/threads.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 -type waker wakers ../../bpf/wakers.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 -type copied_stack leaving ../../bpf/leaving.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 -type heap_limits -type heap_key -type heap_block -type heap_sample heap ../../bpf/heap.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -target amd64,arm64 hits ../../bpf/hits.bpf.c
