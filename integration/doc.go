// Package integration holds the tests that need the real kernel, the real
// Pyroscope server and a browser: they run the headwater binary as a user
// does and judge what comes out by other tools (eu-stack, nm, readelf, the
// kernel's own symbol table).
//
// They need root and the Debian packages that ./packages installs. Where
// something is missing a test is skipped and says what; with REQUIRE_KERNEL=1
// it fails instead. These environment variables matter:
//
//	REQUIRE_KERNEL=1        a missing privilege or tool fails the test
//	HEADWATER_BINARY        the binary to test; else one is built
//	HEADWATER_PYROSCOPE     the Pyroscope server; else pyroscope/build makes one
//	HEADWATER_SOAK          how long TestSoak runs, 45s by default
//	HEADWATER_SCREENSHOTS   a folder where TestPage leaves its screenshots
package integration
