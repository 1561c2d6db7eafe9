// Package specfile reads the files in which people write sandboxes and resource plugins, in
// the published form: YAML or JSON, one document, with directives such as @{var} that are
// replaced before anything else is read. It is pure: values in, values out.
//
//	Parse    takes a file apart, with the line of everything in it    file.go
//	Expand   replaces the directives                                  expand.go
//	Decode   reads a type; what does not fit is a Problem             decode.go
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
// A field that is not there is refused with its line and the name that is nearest, and so
// are a number where text has to stand, a field that is given twice, and whatever else would
// be lost without a word. Fields beside name and spec are warnings, or refused if they are
// fields of spec or near to one. The output of get commands can be applied: its fields have no
// effect, and those of them that repeat the spec have to agree with it.
package specfile
