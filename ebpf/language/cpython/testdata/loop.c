/* A library that looks like a CPython from outside: its evaluation loop has a cold part, and jumps to another function. */
struct thread { long before[7]; void *volatile *volatile frames; volatile long depth; };
long _PyRuntime[600] = {1};
const unsigned long Py_Version = 0x030b02f0;
extern void report(int), use(void *);

__attribute__((noinline)) int next_function(int x) { use(&x); return x + 1; }

__attribute__((cold)) static void unlikely(int x) { report(x); report(x + 1); }

int _PyEval_EvalFrameDefault(struct thread *thread, void *frame, int x)
{
	void *volatile frames[2];
	use((void *)frames);
	thread->frames = frames;
	frames[1] = frame;
	thread->depth--;
	for (int i = 0; i < x; i++) {
		use((void *)frames);
		if (__builtin_expect(x == i + 77, 0)) {
			unlikely(i);
			unlikely(x);
			use((void *)frames);
		}
	}
	return next_function(x);
}

int other(int x)
{
	void *room[9];
	use(room);
	if (__builtin_expect(x == 5, 0)) {
		unlikely(x);
		use(room);
	}
	return x;
}
