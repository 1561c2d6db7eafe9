// Package istio renders the routes of sandboxes into VirtualServices. It is pure: the input is objects,
// and the output objects, findings and status rows.
//
// In this package, a derived route is an HTTP route that the operator adds to a VirtualService, and an
// original is a route that belongs to the owner of the VirtualService.
//
// # Rendering
//
// Derived routes precede each original that routes to a managed Service: one for each sandbox of the
// Service (sorted by routing key) and each port that the original can route to. A derived route is a
// copy of its original, including unknown fields, with these changes:
//
//   - Each destination that is the Service is replaced with the Service of the sandbox, in route,
//     mirror and mirrors, with an explicit port and without the subset, which selects pods of the
//     baseline. Other destinations and all weights stay, so requests with and without a key are split
//     in the same way. If a key has sandboxes for several of the destinations, one route replaces
//     them all.
//   - Each match is combined with each match of the key (package keymatch). A route without matches
//     only gets the matches of the key.
//   - The name is names.Prefix with key, Service, port and original, and ends in a checksum. Names of
//     earlier releases lack the original; their routes are replaced.
//
// Hosts are resolved as Istio does it: a host without a dot is in the namespace of the VirtualService,
// any other is a full name. Istio does not resolve "name.namespace", which is a finding.
//
// # Ports
//
// If a Service has several ports, a destination without a port uses the port at which the request was
// received: the port of the called Service in the mesh, the port of the gateway at a gateway. Only this
// case needs several derived routes, each with match.port, and one without a port for the other
// destinations of the route. match.port refers to the same port in both places, so one entry serves the
// mesh and gateways. match.gateways is never written: with it Istio would ignore sourceLabels and
// sourceNamespace of the original's match.
//
// # Delegates
//
// Routes are added to the VirtualService with the destination, which can be a delegate. Istio merges
// each route of a delegate with the route of the root. If one of its matches cannot be merged with any
// of the root's, Istio drops the route and only logs that. So that derived routes apply wherever the
// original does,
//
//   - an original without matches gets derived routes for each combination of ignoreUriCase and
//     sourceNamespace in the roots, which have to be equal to be merged;
//   - a header that some match of a root has a condition on gets separate derived routes with one match
//     each, as do matches for one port if a root matches ports.
//
// There is a finding for a header that every match of the roots has a condition on, and for a field that
// root and delegate both match, one of them by a regular expression. If Istio drops an original, a
// derived route with fewer matches can still apply.
//
// # Exceptions
//
// The following are not changed: TCP and TLS routes, which carry no headers; VirtualServices with
// AnnotationIgnore; VirtualServices that do not conform to the schema, including derived routes in
// them; and originals with names.Prefix, which lack a valid checksum. If a match already has a
// condition on a header, no condition on the key can be added for it, since headers is a map. The other
// headers of the key are added.
//
// # Removal
//
// Strip is the inverse of Render. Render is a function of the result of Strip, the Services and the
// other VirtualServices, so it does not depend on the current state of the derived routes: it restores
// them in one write, and writes nothing if they are up to date. Only if the object is full (size.go),
// the routes that exist take priority.
//
// Labels and annotations of the installation are added if the object has none with the name, and
// recorded in AnnotationAdded, so that an equal one of the owner stays.
//
// # Deviations
//
// Those of keymatch. Also, VirtualServices without exportTo are treated as exported to all namespaces,
// although an installation of Istio can change this default (defaultVirtualServiceExportTo).
package istio
