// Package web has the control plane's pages for people: sandboxes, route groups, clusters, resources and the audit
// trail of the organisation of a person with a session of package login.
//
//	Handler    sessions, limits, the event stream, forms                  web.go
//	snapshots  rows and reports of clusters, which pages share            snapshot.go, shared.go
//	views      what each page shows                                       sandboxes.go, clusters.go, audit.go, web.html
//	captures   recorded requests                                      captures.go
//	advice     what to do about a sandbox that is not ready               explain.go
//
// A person sees what the REST API shows to the same role. Style, script and frame are those of routeserver/page.
package web
