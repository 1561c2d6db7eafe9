// Package specfile reads the published file formats of sandboxes and resource plugins: YAML or
// JSON, one document, with directives such as @{var} that are replaced before anything else is
// read. It is pure: values in, values out.
//
//	Parse    parses a file, and keeps the line of every node          file.go
//	Expand   replaces the directives                                  expand.go
//	Decode   decodes into a type; a mismatch is a Problem             decode.go
//	Problem  the problem of a field, with its path and line            problem.go
//
// # Directives
//
// They are allowed in texts, at any depth, and not in the names of fields:
//
//	@{name}          the value of name, from --set
//	@{embed: path}   the content of a file, relative to the folder of the spec file
//
// A directive is replaced by text ([raw]). A directive that is the whole text may ask for more:
// @{name[yaml]} for the value that YAML makes of it, @{name[binary]} for its base64. The
// replacement is not searched for further directives.
//
// # Strict
//
// An unknown field is refused with its line and the most similar name, and so are a number where
// text is required, a field that is given twice, and anything else that would be lost silently.
// Fields beside name and spec are warnings, or refused if they are fields of spec or similar to
// one. The output of get commands can be applied: its fields have no effect, and those of them
// that repeat the spec must be equal to it.
package specfile
