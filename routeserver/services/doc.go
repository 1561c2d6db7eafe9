// Package services knows the Services of the cluster, for GetClusterServices: it
// keeps a copy of them by a list and a watch, and says them in the words of the
// published routes API.
//
// Listed is what can be addressed by one name and one address: Services with a
// cluster address, and the pods behind headless Services that have a name of
// their own (hostname and subdomain; those of a StatefulSet always do), which
// stand in the EndpointSlices. For a Service that was made for a fork, and for
// the hosts behind such a one, it says what they stand for, from the annotations
// that the operator leaves on the Service.
//
// It needs leave to list and watch Services and EndpointSlices; without it List
// says so and everything else goes on. Of both only what is read is kept: of an
// EndpointSlice the endpoints that have a hostname.
package services
