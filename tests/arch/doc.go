// Package arch contains the project's rules that a compiler does not check, as tests over the
// source, read with go/parser: allowed imports of each directory, restrictions of pure packages,
// maximum lengths of files and functions, and that every package and exported name is documented.
//
// An exception from a rule is a line in exceptions.go with the reason.
package arch
