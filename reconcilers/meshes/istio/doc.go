// Package istio renders the routes of sandboxes into VirtualServices. It is pure: objects go
// in, and objects, findings and lines of status come out.
//
// # What is rendered
//
// For each of the owner's HTTP routes that leads to a managed Service there are routes of
// ours directly before it, for each sandbox of the Service (sorted by routing key) and each
// port that the route can lead to. A route of ours is a copy of its original, unknown fields
// included, in which
//
//   - every destination that is the Service leads to the sandbox's, in route, mirror and
//     mirrors, with the port written out and without the subset, which is of the baseline's
//     pods. Other destinations and all weights stay, so a request with a key is split as one
//     without. If the same key has sandboxes of several of the destinations, one route has
//     them all.
//   - each match is joined with each match of the key (package keymatch). A route without
//     matches gets those of the key alone.
//   - the name begins with names.Prefix, has the name or the index of its original, and ends in a
//     check of itself. Names of earlier releases lack the original; their routes are replaced.
//
// Which routes lead to a Service is read as Istio reads it: a host without a dot is in the
// namespace of the VirtualService, any other is a full name. "name.namespace" is no name of a
// Service for Istio, which is a finding.
//
// # Ports
//
// A destination without a port, of a Service with several, leads to the port at which the
// request came: that of the Service called in the mesh, that of the gateway at a gateway.
// Only there are several routes of ours needed, each with match.port, and one without a port
// for the other destinations of the route. What match.port means is the same port in both
// places, so one entry serves the mesh and gateways, and match.gateways is never written: with
// it Istio would pass over sourceLabels and sourceNamespace of the owner's match.
//
// # Delegates
//
// Routes are put where the destination is, into the delegate. Istio joins each with the route
// of the root, and drops it if one of its matches can be joined with none of the root's, with no
// more than a line in its log. So that ours are there wherever the owner's is,
//
//   - a route without matches gets ours once for each way in which roots have ignoreUriCase
//     and sourceNamespace, which must be equal to be joined;
//   - a header that some match of a root has a condition on has routes of its own, of one match
//     each; so do matches for one port where a root matches ports.
//
// A header that every match of the roots has a condition on, and a field that root and delegate
// both match, one by a regular expression, are findings. Where Istio drops a route of the
// owner's, one of ours that has fewer matches may be there all the same.
//
// # What is left alone
//
// TCP and TLS routes, which carry no headers; VirtualServices with AnnotationIgnore; those
// that cannot be read by the schema, in which not even a route of ours is touched; and routes
// of the owner's with a name like ours, which have no check, or a wrong one. A header that a
// match has a condition on already is not joined with ours: headers is a map. The other headers
// of the key are.
//
// # Taking back
//
// Strip is the inverse of Render. Render is a function of what Strip leaves, of the Services
// and of the other VirtualServices, so it does not depend on what became of our routes: it
// puts them back in one write, and there is nothing to write when they are as they should be.
// Only when the object is full (size.go) does it ask which routes are there, to keep those.
//
// Labels and annotations of the installation are added where there are none of the name, and
// noted in AnnotationAdded, so that an equal one of the owner's stays.
//
// # Deviations
//
// Those of keymatch. Also, VirtualServices without exportTo are taken for exported to all
// namespaces, which an installation of Istio can change (defaultVirtualServiceExportTo).
package istio
