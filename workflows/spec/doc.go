// Package spec has the published specifications of sandboxes and resource plugins, with the
// names that their files and the published API have. Package specfile reads them, package
// compile makes objects of them. It is pure: values only.
package spec
