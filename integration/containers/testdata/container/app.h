#pragma once
#define PASTE(a, b) a##_##b
#define EXPAND(a, b) PASTE(a, b)
#define NAME(function) EXPAND(PREFIX, function)
#define FRAME __attribute__((noipa)) unsigned long

unsigned long NAME(library)(unsigned long (*call)(long), long);
