/* The library of app: it calls the program back. */
#include "app.h"

FRAME NAME(library)(unsigned long (*call)(long), long rounds) { return call(rounds) + 1; }
