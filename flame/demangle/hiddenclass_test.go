package demangle

import "testing"

// TestHiddenClasses: names of JDK 11, 17, 21 and 25, as in java.lang.Class.getName and the VM's symbols, lose the parts
// that differ between runs; names of other languages are unchanged.
func TestHiddenClasses(t *testing.T) {
	for name, want := range map[string]string{
		"Lam$$Lambda$14/0x0000000800c03000.getAsLong":            "Lam$$Lambda.getAsLong",
		"Lam$$Lambda$1/0x00007f0028000a08.getAsLong":             "Lam$$Lambda.getAsLong",
		"Lam$$Lambda/0x00007f1b5c000400.getAsLong":               "Lam$$Lambda.getAsLong",
		"a.b.Shop$Inner$$Lambda/0x0000000801000bd0.run":          "a.b.Shop$Inner$$Lambda.run",
		"java.lang.invoke.LambdaForm$MH/0x0000000800c05c00.run":  "java.lang.invoke.LambdaForm$MH.run",
		"java.lang.invoke.LambdaForm$DMH+0x0000000800c05c00::of": "java.lang.invoke.LambdaForm$DMH::of",
		"Shop$Hidden+0x0000000800c05c00":                         "Shop$Hidden",
		"jdk.internal.reflect.GeneratedMethodAccessor12.invoke":  "jdk.internal.reflect.GeneratedMethodAccessor.invoke",
		"sun.reflect.GeneratedConstructorAccessor3.newInstance":  "sun.reflect.GeneratedConstructorAccessor.newInstance",
		"Lam$$Lambda$14/2008017533.getAsLong":                    "Lam$$Lambda.getAsLong",
		"Lam$$Lambda$14.getAsLong":                               "Lam$$Lambda.getAsLong",
		"java.lang.invoke.LambdaForm$DMH/1234567.invokeStatic":   "java.lang.invoke.LambdaForm$DMH.invokeStatic",
		"~handle /srv/123.js:4":                                  "~handle /srv/123.js:4",
		"Shop$1.run":                                             "Shop$1.run",
		"Shop.lambda$main$2":                                     "Shop.lambda$main$2",
		"jdk.proxy1.$Proxy2.go":                                  "jdk.proxy1.$Proxy2.go",
		"MyMethodAccessor12.invoke":                              "MyMethodAccessor12.invoke",
		"libc.so.6+0x1f0":                                        "libc.so.6+0x1f0",
		"libc.so.6+0x1f0abcdef":                                  "libc.so.6+0x1f0abcdef",
		"handle /0x12345678":                                     "handle /0x12345678",
	} {
		for _, mode := range []Mode{None, Simplified, Templates} {
			if got := mode.ApplyToClass(name); got != want {
				t.Errorf("%v of %s: %s, want %s", mode, name, got, want)
			}
		}
		if got := Full.ApplyToClass(name); got != name {
			t.Errorf("full of %s: %s", name, got)
		}
	}
}
