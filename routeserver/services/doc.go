// Package services lists the Services of the cluster, for GetClusterServices: it keeps a copy of
// them with list and watch, and converts them to messages of the published routes API.
//
// The list contains everything with one name and one address: Services with a cluster IP, and the
// pods behind headless Services that have their own DNS name (hostname and subdomain; always for
// those of a StatefulSet), which are listed in the EndpointSlices. For a Service that was created
// for a fork, and for the hosts behind it, it contains the Service or host that it replaces, from
// the annotations that the operator sets on the Service.
//
// It needs permission to list and watch Services and EndpointSlices; without it List returns an
// error and everything else continues. Only the fields that are used are cached: of an
// EndpointSlice, the endpoints that have a hostname.
package services
