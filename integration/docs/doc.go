// Package docs holds the tests of the documents: what they say of arguments, flags,
// metrics, commands and files is what the code says.
package docs
