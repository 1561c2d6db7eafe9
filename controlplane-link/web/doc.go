// Package web has the control plane's pages for people: sandboxes, route groups, clusters, resources and the audit
// trail of the organisation of a person with a session of package login.
//
//	Handler    sessions, limits, the event stream, forms             web.go, people.go
//	snapshots  the rows of an organisation, read once for all pages  snapshot.go
//	reports    what clusters report now, with a person's rights      reports.go
//	views      what each page shows                                  sandboxes.go, clusters.go, groups.go, audit.go, web.html
//
// A person sees what the REST API shows to the same role. Style, script and frame are those of routeserver/page.
package web
