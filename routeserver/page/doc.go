// Package page has what pages for people share: style, templates, script, headers and event stream. It knows no
// route server and no control plane, so that both can have pages that look the same.
//
//	Message    a self-contained answer with a short text            message.go
//	Templates  the shared templates, to which a caller adds its own message.go
package page
