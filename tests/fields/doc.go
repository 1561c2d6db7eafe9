// Package fields says of each published field of a custom resource which row of
// which decision table shows that it counts.
//
// That is not claimed but tried. A test hands each row of its table to Row: the
// object and how it is decided. A field of the spec is shown when deciding without
// it, or with another value, comes out differently; a field that is accepted and
// ignored on purpose (Ignored) when it comes out the same. A field of the status is
// shown when the row ends with it. Trying costs time, so it is only done when the
// environment variable SWITCHYARD_FIELDS names a folder, where what was found is
// noted; otherwise Row does nothing.
//
//	Of     the fields of a kind, from its Go type, which tests/conformance/crd
//	       holds against the published schema        published.go
//	Row    what one row shows                        row.go
//	Report what all rows show, and what none does    report.go
//
// make fields runs all tables and prints the report.
package fields
