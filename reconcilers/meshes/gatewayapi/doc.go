// Package gatewayapi derives HTTPRoutes and GRPCRoutes for sandboxes: beside each route that
// leads to a baseline Service one for each routing key, whose matches ask for the key as well
// and whose backends are the Services of the fork. It is pure: all routes in, the routes that
// are to be and what there is to say of them out.
//
//	Derive      what is to be                                   derive.go
//	            its rules, matches and how they are split       rules.go
//	            which backends are replaced, and what they lack backend.go
//	            names, labels, owners                           metadata.go
//	            requests that go elsewhere than they should     contest.go
//	            what a GatewayAPIRoute's status says            report.go
//	            which object to add                             advice.go
//	            BackendTLSPolicies of the Services of forks       tls.go
//	Plan        what has to be written to get there             plan.go
//	kind        what HTTPRoutes and GRPCRoutes have in common   kind.go
//
// # What a derived route is
//
// A copy of its original in the original's namespace: the same parents with their ports and
// sections, the same host names, and of each rule that leads to the Service the same filters,
// timeouts, retries, session persistence and weights. Only the backends that are the Service
// on a mapped port are others. Each match stands there once for each header that may carry
// the key (package keymatch). A rule without matches gets those of one that matches all.
//
// A rule that does not lead to the Service is derived only where it must be: a match on a
// header goes before more query parameters, so that the derived rules would take requests
// that such a rule answers. It then keeps its backends.
//
// Where a rule would have more matches than the API takes, or one that replaces the matched
// prefix more than one, it becomes several rules, and where there are too many of these,
// several routes, whose names sort in their order.
//
// # BackendTLSPolicies
//
// A BackendTLSPolicy of a baseline's Service is copied for the Service of the fork to which a derived
// route routes, in the same namespace and with the same validation. A fork serves the certificate of
// its baseline, so the host name to verify is the same.
//
// # What is not derived
//
// Nothing from routes of our own, from those with the annotation crdv1.AnnotationIgnore, nor
// for a Service that a VirtualService governs: clients would see one of the two, depending on
// where they are and which is older. A match of the owner on a header that carries keys cannot
// be joined with ours, since a match may name a header once; the other headers remain. Nor from a
// route with a regular expression that does not compile: istiod accepts it, and its proxies then
// refuse all later routes of the parent. Of another route beside it that is told (BadExpression).
//
// A route whose Service is in another namespace needs a ReferenceGrant that names the Service
// of the fork as well. Without it the derived route is there and its requests fail, so that no
// request with the key reaches the baseline unseen, and the finding shows the grant: it is the
// owner's to give.
//
// # Whose requests
//
// With the key a request has to be answered by what is derived from the rule that answers it
// without the key, and by that rule itself where nothing is. Everything else is found by
// package precedence, with a request as an example (RequestsLost, RequestsTaken). That a more
// specific route answers some of the requests that fit, with and without the key, is as it
// should be and told all the same (MoreSpecificRoute). Routes of a Gateway meet at each
// listener and port that any of them names, routes of a Service where namespace and port of
// the reference are the same.
//
// # One key at a time
//
// What is derived for one routing key does not depend on another's, so a caller to whom one key
// was changed passes what is Managed under that key, and all routes.
//
// # Ours
//
// A route is ours when its labels or its owners say so (IsDerived). Plan touches no other.
package gatewayapi
