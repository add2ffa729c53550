package testkit

import (
	"flag"
	"strconv"
)

// Parallel lets n parallel tests of a package run at once, unless the flag -parallel is given. TestMain calls it if
// most tests wait: then more tests than CPUs can run.
func Parallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
