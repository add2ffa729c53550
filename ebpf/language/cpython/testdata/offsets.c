/* Prints the offsets of layouts.txt by the headers of a Python. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_pystate.h>
#include <stddef.h>
#include <stdio.h>
#if PY_MINOR_VERSION >= 9
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_MINOR_VERSION >= 11
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#endif
#if PY_MINOR_VERSION >= 14
#include <internal/pycore_interpframe_structs.h>
#endif

#define PRINT(field, n) printf("%s %zu\n", field, (size_t)(n))

int main(void)
{
	PRINT("runtime.interpreters", offsetof(_PyRuntimeState, interpreters.head));
#if PY_MINOR_VERSION < 12
	PRINT("runtime.key", offsetof(_PyRuntimeState, gilstate.autoTSSkey._key));
	PRINT("runtime.running", offsetof(_PyRuntimeState, gilstate.tstate_current));
	PRINT("thread.id", offsetof(PyThreadState, thread_id));
#elif PY_MINOR_VERSION < 15
	PRINT("runtime.key", offsetof(_PyRuntimeState, autoTSSkey._key));
#endif
	PRINT("thread.next", offsetof(PyThreadState, next));
	PRINT("thread.interpreter", offsetof(PyThreadState, interp));
#if PY_MINOR_VERSION < 11
	PRINT("interpreter.threads", offsetof(PyInterpreterState, tstate_head));
	PRINT("thread.frame", offsetof(PyThreadState, frame));
	PRINT("frame.previous", offsetof(PyFrameObject, f_back));
	PRINT("frame.code", offsetof(PyFrameObject, f_code));
	PRINT("frame.instruction", offsetof(PyFrameObject, f_lasti));
	PRINT("code.name", offsetof(PyCodeObject, co_name));
#else
	PRINT("interpreter.threads", offsetof(PyInterpreterState, threads.head));
	PRINT("frame.previous", offsetof(_PyInterpreterFrame, previous));
	PRINT("code.name", offsetof(PyCodeObject, co_qualname));
	PRINT("code.instructions", offsetof(PyCodeObject, co_code_adaptive));
#endif
#if PY_MINOR_VERSION == 11 || PY_MINOR_VERSION == 12
	PRINT("thread.cframe", offsetof(PyThreadState, cframe));
	PRINT("thread.frame", offsetof(_PyCFrame, current_frame));
	PRINT("frame.code", offsetof(_PyInterpreterFrame, f_code));
	PRINT("frame.instruction", offsetof(_PyInterpreterFrame, prev_instr));
#elif PY_MINOR_VERSION > 12
	PRINT("thread.frame", offsetof(PyThreadState, current_frame));
	PRINT("frame.code", offsetof(_PyInterpreterFrame, f_executable));
	PRINT("frame.instruction", offsetof(_PyInterpreterFrame, instr_ptr));
#endif
#if PY_MINOR_VERSION == 11
	PRINT("frame.mark", offsetof(_PyInterpreterFrame, is_entry));
#elif PY_MINOR_VERSION > 11
	PRINT("frame.mark", offsetof(_PyInterpreterFrame, owner));
#endif
#if PY_MINOR_VERSION < 10
	PRINT("code.lines", offsetof(PyCodeObject, co_lnotab));
#else
	PRINT("code.lines", offsetof(PyCodeObject, co_linetable));
#endif
	PRINT("code.firstline", offsetof(PyCodeObject, co_firstlineno));
	PRINT("code.filename", offsetof(PyCodeObject, co_filename));
	PRINT("object.type", offsetof(PyObject, ob_type));
	PRINT("type.name", offsetof(PyTypeObject, tp_name));
	PRINT("bytes.size", offsetof(PyVarObject, ob_size));
	PRINT("bytes.data", offsetof(PyBytesObject, ob_sval));
	PRINT("text.length", offsetof(PyASCIIObject, length));
	PRINT("text.state", offsetof(PyASCIIObject, state));
	PRINT("text.ascii", sizeof(PyASCIIObject));
	PRINT("text.compact", sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject));
	return 0;
}
