package demangle

import (
	"regexp"
	"strings"
)

// Classes that a Java VM makes at run time have the address of the class or a count in their names, which differ
// between runs, replicas and deployments.
var (
	// lambda matches the count and the address, or before Java 15 the hash, of a lambda's class:
	// "Shop$$Lambda$14/0x0000000800c03000", "Shop$$Lambda$14/2008017533".
	lambda = regexp.MustCompile(`(\$\$Lambda|\bLambdaForm\$[A-Z]+)(?:\$\d+)?(?:[/+](?:0x[0-9a-f]{16}|\d+))?(\.|::|$)`)
	// hiddenClass matches the address of any other hidden class, in the form of Class.getName and of the VM.
	hiddenClass = regexp.MustCompile(`[/+]0x[0-9a-f]{16}(\.|::|$)`)
	// accessor matches the count in names of classes that call a method for reflection.
	accessor = regexp.MustCompile(`(\bGenerated(?:Method|Constructor|SerializationConstructor)Accessor)\d+\b`)
)

// ApplyToClass returns the name of a Java function in the form of the mode: without the parts of VM-made class names
// that differ between two runs of one program. Full leaves the name unchanged.
func (m Mode) ApplyToClass(name string) string {
	if m == Full {
		return name
	}
	if strings.Contains(name, "Lambda") {
		name = lambda.ReplaceAllString(name, "$1$2")
	}
	if strings.Contains(name, "0x") {
		name = hiddenClass.ReplaceAllString(name, "$1")
	}
	if strings.Contains(name, "Accessor") {
		name = accessor.ReplaceAllString(name, "$1")
	}
	return name
}
