// Package fields determines, for each published field of a custom resource, which row of which
// decision table shows that it has an effect.
//
// It does so by experiment. A test passes each row of its table to Row: the object and the decision
// function. A field of the spec is shown when the decision without it, or with another value,
// differs; a field that is accepted and ignored on purpose (Ignored) when it is equal. A field of
// the status is shown when the row ends with a value that is not the zero of its type. The experiment takes time, so it only runs when
// the environment variable SWITCHYARD_FIELDS names a directory for the results; otherwise Row does
// nothing.
//
//	Of     the fields of a kind, from its Go type, which tests/conformance/crd
//	       compares with the published schema        published.go
//	Row    the fields that one row shows             row.go
//	Report the fields that all rows show, and others report.go
//
// make fields runs all tables and prints the report.
package fields
