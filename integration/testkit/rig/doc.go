// Package lab holds the helpers that the tests in integration/ share. The tests run the headwater binary like a user,
// on this host and its kernel, and check its output with other tools (eu-stack, nm, readelf, the kernel's own symbol
// table).
//
// The packages with tests have one subject each:
//
//	stacks      stacks are whole and right
//	names       functions, files and lines have the right names
//	delivery    what is collected arrives at Pyroscope, whatever goes wrong on the way
//	hosts       configurations in this runtime and in the Grafana Agent
//	containers  targets are containers, pods and cgroups
//	page        the web pages, in a browser
//	endurance   long runs, hostile users, a profiler that is stopped for a while
//	tree        what holds for the whole source tree
//
// All packages except tree need root and the Debian packages that integration/packages installs. If a requirement is
// missing, a test is skipped and names it; with REQUIRE_KERNEL=1 it fails instead. Each package profiles the host, so
// no two packages may run at the same time: go test -p 1. These environment variables matter:
//
//	REQUIRE_KERNEL=1        a missing privilege or tool fails the test
//	HEADWATER_BINARY        the binary to test; else each package builds one
//	HEADWATER_PYROSCOPE     the Pyroscope server; else integration/pyroscope/build makes one
//	HEADWATER_SOAK          how long TestSoak runs: 6s by default, 45s of make nightly
//	HEADWATER_SCREENSHOTS   a folder where TestPage leaves its screenshots
package rig
