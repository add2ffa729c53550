/* A server that runs a script in a Python of its own. */
#include <Python.h>

int main(int argc, char **argv)
{
	(void)argc;
	return Py_BytesMain(argc, argv);
}
