// Package translate says the routing table in Envoy's language, for one
// baseline workload. It is pure: a table in, resources out.
//
// # What is dynamic
//
// The sidecar's listener, filters and clusters never change and are in its
// bootstrap (sidecars/devmesh). Only a RouteConfiguration is served, one per
// workload, under a name of its own (RouteName) that the sidecar asks for. It
// has one virtual host with one matcher: a map from MatchValue, which is the
// port and the routing key of the request, to a route.
//
//	rule, port with an address  → cluster ForksCluster, DestinationHeader set to it
//	rule, port without address  → 503, ReasonHeader and a text that names the sandbox
//	rule that is not ready      → 503, likewise, on each of its ports
//	anything else               → cluster AppCluster: the baseline
//
// The proxy computes the match value once per request; the map is a hash map
// over bytes. So the cost of a request does not grow with the number of rules,
// and keys are neither folded nor taken for patterns. A port that a rule has no
// mapping for goes to the baseline, as the routes API has it.
//
// # What users owe
//
// The proxy's listener must set the filter state FilterStateKey to MatchValue of
// the request, must not let a client's own DestinationHeader through, and must
// have the two clusters. Bootstrap in sidecars/devmesh does all that.
package translate
