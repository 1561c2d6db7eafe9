// Package translate turns the routing table into Envoy configuration for one baseline workload.
// It is pure: a table in, resources out.
//
// # In parts
//
// The same routes are also offered in parts (PartType), for a client that puts them together
// itself: PartCount virtual hosts, each with the entries of the map with a match value that
// hashes to it, and a head with everything but the map. A change of one rule changes the head
// and one part of 64: at 1,000 rules 3.4 KB instead of 173 KB. The version of the head is that
// of the whole, a hash over the head's content and that of all parts. Compose returns the whole
// to the byte, so a client can check that it has put together the intended whole.
//
// A part without entries is left out. Parts are cut out and inserted as bytes; Updated marshals
// only the entries that changed. In the whole, destinations are where the proxy reads them: ReadPart
// moves them.
//
// # Dynamic configuration
//
// The sidecar's listener, filters and clusters never change and are in its
// bootstrap (sidecars/devmesh). Only a RouteConfiguration is served, one per
// workload, under a name of its own (RouteName) that the sidecar asks for. It
// has one virtual host with one matcher: a map from MatchValue, which is the
// port and the routing key of the request, to a route.
//
//	rule, port with an address  → cluster ForksCluster, with it in the route's metadata
//	                              (in parts: DestinationHeader set to it)
//	rule, port without address  → 503, ReasonHeader and a text that names the sandbox
//	rule that is not ready      → 503, likewise, on each of its ports
//	rule that is kept           → cluster AppCluster, under a name of its own
//	anything else               → cluster AppCluster: the baseline
//
// The proxy computes the match value of a request that may carry a key; the map is a hash map
// over bytes. So the cost of a request does not grow with the number of rules, and keys are
// neither folded nor taken for patterns. A port for which a rule has no mapping is routed to
// the baseline, as the routes API specifies. A rule that is kept (of a VirtualWorkload) has an
// entry although its requests reach the baseline anyway, so that a response can report that the
// key is known and which sandbox owns it.
//
// Where custom headers carry routing keys (table.Table.KeyHeaders), the virtual host
// also replaces the configuration of the proxy's KeyFilter, so that the proxy follows
// the list.
//
// # Requirements for the proxy
//
// The proxy's listener must take the key with a filter of the name KeyFilter, made by
// KeyExtraction, must set the filter state FilterStateKey to MatchValue of
// the request, must not let a client's own DestinationHeader through, must copy the
// client's x-forwarded-proto into ProtoHeader before it sets its own, must take expressions
// of 200 steps (re2.max_program_size.error_level; Envoy's default is 100), and must
// have the two clusters. KeyFilter, MatchFilter (which sets that state), DestinationFilter,
// RefuseFilter and ExplainFilter may be disabled if all five are there: the routes that Compose
// gives switch them on for the requests that need them. Custom headers cost a little more: they
// switch KeyFilter on for every request. Bootstrap in sidecars/devmesh does all that.
package translate
