/* f20 to f39, in a shared library. f39 leaves it through libc: qsort calls f40. */
#include "chain.h"

PLAIN(f20, f21)
PLAIN(f21, f22)
LARGE(f22, f23, 24)
PLAIN(f23, f24)
ALLOCA(f24, f25)
PLAIN(f25, f26)
REALIGNED(f26, f27)
LARGE(f27, f28, 200)
PLAIN(f28, f29)
PLAIN(f29, f30)
PLAIN(f30, f31)
ALLOCA(f31, f32)
LARGE(f32, f33, 4096)
REALIGNED(f33, f34)
PLAIN(f34, f35)
PLAIN(f35, f36)
PLAIN(f36, f37)
LARGE(f37, f38, 40000)
ALLOCA(f38, f39)

FRAME f39(struct chain *c)
{
	struct item items[2] = {{c, 1}, {c, 0}};
	qsort(items, 2, sizeof items[0], c->compare);
	return items[0].key;
}
