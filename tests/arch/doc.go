// Package arch holds the rules of the house that a compiler does not check, as
// tests over the source, read with go/parser: which folder may import which,
// what pure packages may not touch, how long files and functions may be, and
// that every package and exported name says what it is for.
//
// A rule that must be broken is broken by a line in exceptions.go that says why.
package arch
