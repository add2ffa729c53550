/*
 * A server that runs a script in a Python of its own. With the environment variable ANOTHER it starts Python, ends it,
 * and starts it again. Then it runs the script in another interpreter than the first one, as uwsgi and mod_wsgi do.
 */
#include <Python.h>
#include <locale.h>
#include <stdlib.h>

static int run_another(int argc, char **argv)
{
	PyConfig config;
	PyThreadState *first, *other;
	FILE *script = fopen(argv[1], "r");

	if (!script)
		return 1;
	Py_Initialize();
	PyRun_SimpleString("sum(range(1000))");
	if (Py_FinalizeEx())
		return 1;
	PyConfig_InitPythonConfig(&config);
	PyConfig_SetBytesArgv(&config, argc, argv);
	if (PyStatus_Exception(Py_InitializeFromConfig(&config)))
		return 1;
	PyConfig_Clear(&config);
	first = PyThreadState_Get();
	other = Py_NewInterpreter();
	if (!other)
		return 1;
	PyThreadState_Swap(first);
	PyThreadState_Swap(other);
	PyObject *arguments = PyList_New(0);
	for (int i = 1; i < argc; i++)
		PyList_Append(arguments, PyUnicode_FromString(argv[i]));
	PySys_SetObject("argv", arguments);
	int failed = PyRun_SimpleFile(script, argv[1]);
	Py_EndInterpreter(other);
	PyThreadState_Swap(first);
	return Py_FinalizeEx() || failed;
}

int main(int argc, char **argv)
{
	return getenv("ANOTHER") ? run_another(argc, argv) : Py_BytesMain(argc, argv);
}
