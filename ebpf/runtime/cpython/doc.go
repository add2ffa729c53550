// Package cpython finds and names the Python functions of CPython 3.8 and later.
//
// A thread state holds a list of frames, the innermost first. Each native frame of the
// evaluation loop, _PyEval_EvalFrameDefault, runs one or more of them:
//
//	3.8 to 3.10   one each
//	3.11          up to the one with is_entry
//	3.12          up to a frame that is no function's: the loop's own, on its stack
//
// The thread state is found by the pthread key that PyGILState_GetThisThreadState uses, also
// while the thread has given up the GIL; from 3.15 on by a thread-local variable.
//
// Where things are in memory stands in layouts.txt, or in the runtime's own description
// (_Py_DebugOffsets, 3.13 and later), which the table refers to. Nothing that was read of a
// process is believed before it was checked: a code object must be one by its type, and the
// layout of a version that is newer than the table must lead to code objects.
package cpython
