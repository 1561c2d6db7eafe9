// Package page has what pages for people share: style, templates, script, headers and event stream. It knows no
// route server and no control plane, so that both can have pages that look the same.
//
//	Message    a self-contained answer with a short text                  message.go
//	Templates  the shared templates, to which a caller adds its own       message.go, layout.html
//	Write      a page in its frame, or the fragment that the script gets  frame.go, script.js
//	Streams    event streams with revisions                               events.go
//	Assets     style, script and icon                                     assets.go
package page
