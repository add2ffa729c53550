"""For gdb: prints the ID of each thread, and kind and pc of each of its frames."""
import gdb

KINDS = {gdb.NORMAL_FRAME: "function", gdb.INLINE_FRAME: "inlined", gdb.TAILCALL_FRAME: "left by a jump"}

for thread in gdb.selected_inferior().threads():
    thread.switch()
    print("thread %d" % thread.ptid[1])
    frame = gdb.newest_frame()
    while frame is not None:
        print("frame 0x%x %s" % (frame.pc(), KINDS.get(frame.type(), "other")))
        frame = frame.older()
