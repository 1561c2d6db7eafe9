// Package spec has the published specifications of sandboxes and resource plugins, with the field
// names of their files and the published API. Package specfile reads them, package compile
// compiles them to objects. It is pure: values only.
package spec
