package tree

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPackagesThatProfile compares the list INTEGRATION of the Makefile with the packages whose tests import
// integration/testkit/rig: a missing package would profile the host while other packages run.
func TestPackagesThatProfile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^INTEGRATION = \$\(addprefix \./integration/,([a-z ]+)\)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no list INTEGRATION")
	}
	listed := strings.Fields(string(list[1]))
	slices.Sort(listed)
	var found []string
	for _, file := range goFiles(t, "../..") {
		for _, imported := range importsOf(t, file) {
			if imported == module+"/integration/testkit/rig" {
				found = append(found, strings.TrimPrefix(path.Dir(file), "integration/"))
			}
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(slices.Compact(found), listed); diff != "" {
		t.Errorf("INTEGRATION in the Makefile (-packages that import integration/testkit/rig +listed)\n%s", diff)
	}
}
