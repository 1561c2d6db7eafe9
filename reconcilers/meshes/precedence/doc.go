// Package precedence decides which rule of which HTTPRoute or GRPCRoute answers a request, by
// the rules of the Gateway API. For a rule it finds requests that fit it and that another rule
// answers. It is pure.
//
//	Route, Of…      the routes of one parent as the rules see them   route.go
//	Request         what is compared with them                       request.go
//	Order.Winner    the rule that answers a request                  order.go
//	Order.Losses    requests that a rule matches and another gets    contest.go
//	Order.Overtakes requests that a rule gets since it exists        contest.go
//	samples         texts that a regular expression matches          sample.go
//
// The routes are those of one parent: of one listener of a Gateway, or of one port of a
// Service. Whoever asks knows which those are.
//
// # The order
//
// Among the matches that a request fits, the first wins that has, continuing on ties:
//
//	both kinds   the longer host name without a wildcard, then with one
//	HTTPRoute    an exact path; the longer prefix; a method; more headers; more query parameters
//	GRPCRoute    the longer service; the longer method; more headers
//	both kinds   the older route; namespace/name; the earlier rule; the earlier match
//
// A route that has not been created yet is younger than all. Of an HTTPRoute and a GRPCRoute
// whose host names meet, the API accepts the older alone.
//
// # What implementations do differently
//
// An Order says which of these hold:
//
//   - RegexFirst: where the API leaves it open, a regular expression as path goes before every
//     prefix (Contour) rather than after (istiod).
//   - KindsJoined: HTTPRoutes and GRPCRoutes of one parent stand in one list (both). A service
//     is a prefix there, service and method are an exact path, a method alone is a regular
//     expression; a match without either comes after those, and a rule without matches last.
//   - CallsAtRoot: in that list the last two are the prefix / as an HTTPRoute has it (Contour).
//   - HostsApart: a request is answered by the routes of the most specific host name alone, or by
//     none (Envoy's virtual hosts), also where only a less specific one has a rule for it.
//   - NamespaceFirst: of two routes as old the one in the first namespace goes first, then the one
//     whose name with a ~ behind it is first (istiod). That is not the order of "{namespace}/{name}"
//     where one namespace or name is the beginning of the other.
//
// What else they do otherwise no Order says. Tests in tests/meshes compare random routes with a
// real istiod and a real Contour, and know these. Hardly anybody writes such routes for istiod:
//
//   - Where a match names a header in large and in small letters, the first counts by the API.
//     Istiod asks for both.
//   - Of an HTTPRoute and a GRPCRoute of the same namespace and name istiod keeps the HTTPRoute,
//     and of the GRPCRoute only the host names from the place on where the other has no more.
//   - Where routes name the port of a Service, a GRPCRoute's rule without matches does not come
//     after those whose match is empty: the older route goes first, then the earlier rule.
//
// With Contour some are common, so that its Order is right only about routes without them:
//
//   - Of two routes that rank equally the older does not go first, but the one whose rule is the
//     earlier in its route, then the one whose conditions sort first as text.
//   - Of two rules with a same match the younger is left out, with all other matches of it.
//   - A slash at the end of a prefix makes it longer.
//   - Of two regular expressions as long, the later in the alphabet goes first, whatever else
//     is asked for.
//   - A match of a GRPCRoute that has a service or a method alone, or an expression for one, is
//     left out.
//   - A rule that has no backends and does not redirect is left out.
//
// # How requests are found
//
// Two matches meet in a request that fits both and as few others as can be: headers and
// parameters that neither names are absent, and where neither says which path, method or host,
// one is taken that nobody names. Whatever else fits that request fits every request that fits
// both, so when any such request goes to the other match, this one does. Regular expressions are
// the exception: they are tried with sample texts. A loss that is found is always one; one that
// only an unusual text would show may be missed. An expression holds for a whole value, as in
// Envoy, and one that does not compile fits nothing.
package precedence
