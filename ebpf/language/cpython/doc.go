// Package cpython finds and names the Python functions of CPython 3.8 and later.
//
// A thread state has a list of frames, the innermost first. Each native frame of the evaluation loop,
// _PyEval_EvalFrameDefault, runs one or more frames:
//
//	3.8 to 3.10   one each
//	3.11          up to the one with is_entry
//	3.12          up to the loop's own frame on its stack, which belongs to no function
//
// The thread state is found by the pthread key that PyGILState_GetThisThreadState uses, which also works for a thread
// without the GIL; from 3.15 on, it is found by a thread-local variable. A thread has a state for each interpreter that
// it has run. Since 3.12 the key has the last state that ran, before that the first one; there, the state of the thread
// that has the GIL is in _PyRuntime.
//
// Offsets in memory are in layouts.txt, or in the runtime's own description (_Py_DebugOffsets, 3.13 and later), to
// which the table refers. All data of a process is checked: a code object must have the code type, and the layout of a
// version that is newer than the table must lead to code objects.
package cpython
