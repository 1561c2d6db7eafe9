// Package precedence decides which rule of the HTTPRoutes and GRPCRoutes of a parent handles a request,
// by the precedence rules of the Gateway API. For a rule it finds requests that match it and that
// another rule handles. It is pure.
//
//	Route, Of…      the routes of one parent                          route.go
//	Request         the request that they are matched with            request.go
//	Order.Winner    the rule that handles a request                   order.go
//	Order.Losses    requests that a rule matches and another receives contest.go
//	Order.Overtakes requests that a rule takes from others            contest.go
//	samples         texts that a regular expression matches           sample.go
//
// All routes of a call belong to one parent: one listener of a Gateway, or one port of a Service. The
// caller selects them.
//
// # The order
//
// Of the matches that a request meets, the first in this order wins; each item breaks ties of those
// before it:
//
//	both kinds   the longer host name without a wildcard, then with one
//	HTTPRoute    an exact path; the longer prefix; a method; more headers; more query parameters
//	GRPCRoute    the longer service; the longer method; more headers
//	both kinds   the older route; namespace/name; the earlier rule; the earlier match
//
// A route that has not been created yet counts as the youngest. Of an HTTPRoute and a GRPCRoute with
// intersecting host names, the API accepts only the older.
//
// # Deviations of implementations
//
// The fields of Order describe them:
//
//   - RegexFirst: the API leaves the precedence of regular expressions for paths open. They precede
//     all prefixes (Contour) instead of following them (istiod).
//   - KindsJoined: HTTPRoutes and GRPCRoutes of one parent share one list (both). A service is a
//     prefix there, service and method are an exact path, and a method alone is a regular
//     expression; a match with neither follows those, and a rule without matches is last.
//   - CallsAtRoot: in that list the last two are the prefix / of an HTTPRoute (Contour).
//   - HostsApart: only the routes of the most specific host name can handle a request (Envoy's virtual
//     hosts), even if only a less specific one has a rule that matches it.
//   - NamespaceFirst: of two routes with the same age the one in the first namespace precedes, then the
//     one with the first name, compared with a ~ appended (istiod). That differs from the order of
//     "{namespace}/{name}" if one namespace or name is a prefix of the other.
//
// Order does not describe further deviations. Tests in tests/meshes compare random routes with a real
// istiod and a real Contour, and exclude these. For istiod such routes are rare:
//
//   - If a match names a header both in upper and in lower case, the API ignores all but the first.
//     Istiod requires both.
//   - Of an HTTPRoute and a GRPCRoute with the same namespace and name, istiod keeps the HTTPRoute, and
//     of the GRPCRoute only the host names at indexes beyond the end of the HTTPRoute's list.
//   - If routes name the port of a Service, a GRPCRoute's rule without matches does not follow those
//     with an empty match: the older route precedes, then the earlier rule.
//
// For Contour some are common, so its Order is valid only for routes without them:
//
//   - Two routes of equal rank are not ordered by age, but by the index of the rule in its route, then
//     by the text of the conditions.
//   - Of two rules with an equal match the younger is dropped, with all its other matches.
//   - A trailing slash makes a prefix longer.
//   - Of two regular expressions with the same length, the later in alphabetical order precedes,
//     regardless of other conditions.
//   - A match of a GRPCRoute with only a service or only a method, or with an expression for one, is
//     dropped.
//   - A rule that has no backends and does not redirect is dropped.
//
// # Search for requests
//
// For two matches, the package builds a request that meets both and as few others as possible: headers
// and parameters that neither names are absent, and a path, method or host that neither specifies is
// one that no route names. Any other match that this request meets is met by all requests that meet
// both, so if any such request is handled by the other match, this one is too. Regular expressions are
// the exception: they are tried with sample texts. A reported loss is always real, but one that only an
// unusual text would show can be missed. An expression has to match the whole value, as in Envoy; one
// that does not compile matches nothing.
package precedence
