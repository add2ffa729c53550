// Package docs holds the tests of the documents: they check that statements about arguments, flags, metrics, commands
// and files match the code.
package docs
