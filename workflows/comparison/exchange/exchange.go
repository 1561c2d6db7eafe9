// Package exchange is the input of the comparison: one request with its response, from any capture.
package exchange

import (
	"strings"

	"switchyard.dev/eventbus/lists"
)

// Exchange is a request and its response. Empty fields are unknown.
type Exchange struct {
	ID string
	// Test, Name and Call identify it in a test run: the test, the name of the request, and its number among those of this name, from 1.
	// Call 0: the order of the run counts.
	Test, Name string
	Call       int
	// Trace and Parent are the trace and the parent span.
	Trace, Parent     string
	Method, Path      string
	Request, Response Message
}

// Message is one side of an exchange. Body is as it was sent, in its content encoding; it can be the beginning only: then Size is larger.
type Message struct {
	Status  int
	Header  []Field
	Trailer []Field
	Body    []byte
	Size    int64
	SHA256  string
}

// Field is a header or trailer.
type Field struct{ Name, Value string }

// Value returns the values of a header, joined.
func Value(fields []Field, name string) string {
	named := lists.Filter(fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
	return strings.Join(lists.Map(named, func(f Field) string { return f.Value }), ", ")
}

// Run is what one run of one side captured, in order.
type Run []Exchange
