// Package gatewayapi derives HTTPRoutes and GRPCRoutes for sandboxes. For each route to a baseline
// Service and each routing key it derives a route with matches that also require the key and with the
// Services of the fork as backends. It is pure: the input is all routes, and the output the desired
// derived routes, findings and statuses.
//
//	Derive      the desired routes                              derive.go
//	            rules, matches and how they are split           rules.go
//	            replaced backends, and findings about them      backend.go
//	            names, labels, owners                           metadata.go
//	            requests that the wrong rule handles            contest.go
//	            the status of a GatewayAPIRoute                 report.go
//	            objects that users should add                   advice.go
//	            BackendTLSPolicies of the Services of forks     tls.go
//	Plan        the writes that reach the desired routes        plan.go
//	kind        generic access to HTTPRoutes and GRPCRoutes     kind.go
//
// # Derived routes
//
// A derived route is a copy of its original in the same namespace: with the same parents including
// their ports and sections, the same host names, and for each rule that routes to the Service the same
// filters, timeouts, retries, session persistence and weights. Only backends that are the Service on a
// mapped port are replaced. Each match is repeated for each header that can carry the key (package
// keymatch). A rule without matches is treated as one with a match of all requests.
//
// A rule that does not route to the Service is derived only if necessary: a match on a header takes
// precedence over more query parameters, so the derived rules would take requests of such a rule. It
// then keeps its backends.
//
// A rule is split into several rules if it exceeds the API's limit of matches, which is one if it
// replaces the matched prefix. If there are too many rules, they are split into several routes with
// names that sort in their order.
//
// # BackendTLSPolicies
//
// A BackendTLSPolicy of a baseline's Service is copied for the Service of the fork to which a derived
// route routes, in the same namespace and with the same validation. A fork serves the certificate of
// its baseline, so the host name to verify is the same.
//
// # Exceptions
//
// Nothing is derived from derived routes, from routes with the annotation crdv1.AnnotationIgnore, nor
// for a Service that a VirtualService governs: depending on their location and on the age of the
// objects, clients would use one of the two. Nothing is derived from a route with a regular expression
// that does not compile either: istiod accepts it, and its proxies then reject all later routes of the
// parent. Other routes of that parent get a finding (BadExpression). If a match of the original is on
// a header that carries keys, no match on the key in that header can be added, since a match can name a
// header only once; the other headers remain.
//
// A route to a Service in another namespace needs a ReferenceGrant for the Service of the fork too.
// Without it the derived route is created and its requests fail, so that no request with the key
// reaches the baseline unnoticed. The finding contains the ReferenceGrant, which the owner of that
// namespace has to create.
//
// # Precedence
//
// A request with the key has to be handled by the rule that is derived from the rule that handles it
// without the key, or by that rule itself if none is derived. Package precedence finds deviations, with
// an example request (RequestsLost, RequestsTaken). That a more specific route handles some of the
// matching requests, with and without the key, is correct and reported for information
// (MoreSpecificRoute). Routes of a Gateway compete at each listener and port that any of them names;
// routes of a Service compete if namespace and port of their parent references are the same.
//
// # One key at a time
//
// The routes derived for one routing key do not depend on other keys. After a change to one key, the
// caller passes the Managed of that key, and all routes.
//
// # Ownership
//
// A route is the operator's if IsDerived reports so, by its labels or owners. Plan changes no other
// route.
package gatewayapi
