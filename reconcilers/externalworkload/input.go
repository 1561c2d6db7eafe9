package externalworkload

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
)

// Limits are the settings for when a tunnel counts as connected and which objects are written.
type Limits struct {
	// Fresh is the maximum age of the last check of a tunnel. Zero means DefaultFresh.
	Fresh time.Duration
	// Grace is after how long a tunnel that is not connected is collected. Zero means
	// DefaultGrace.
	Grace time.Duration
	// WriteEndpoints enables an Endpoints object beside each EndpointSlice.
	WriteEndpoints bool
}

// Defaults for Limits.
const (
	DefaultFresh = time.Minute
	DefaultGrace = 10 * time.Minute
)

// Also returns the kinds of objects that are created only if the Limits enable them; they need indexes
// like the others.
func (l Limits) Also() []client.Object {
	if !l.WriteEndpoints {
		return nil
	}
	return []client.Object{&oldEndpoints{}}
}

// withDefaults returns the Limits with every duration set.
func (l Limits) withDefaults() Limits {
	if l.Fresh <= 0 {
		l.Fresh = DefaultFresh
	}
	if l.Grace <= 0 {
		l.Grace = DefaultGrace
	}
	return l
}

// Input has all inputs of Decide. It is shared with the cache and must not be changed.
type Input struct {
	// Workload is the SignadotExternalWorkload. If one of the operator's proxies reports its tunnel, its
	// status.tunnel is that report, and Written is the external workload as it was read; otherwise Written
	// is nil.
	Workload, Written *crdv1.SignadotExternalWorkload
	// Report is the report of the operator's proxies about its tunnel; nil if they are not polled.
	Report *ProxyReport
	// Seen is the state of its baseline.
	member.Seen
	// Neighbours are the Services of the namespace that were not created for a member.
	Neighbours []corev1.Service
	// Services, Slices and Endpoints are the objects that the external workload owns; Endpoints are only
	// read with Limits.WriteEndpoints.
	Services  []corev1.Service
	Slices    []discoveryv1.EndpointSlice
	Endpoints []oldEndpoints
	// Holders are the pods that can be the end of the tunnel in the status: those with the name in the
	// status, in the namespace of the external workload and in the operator's.
	Holders []corev1.Pod
	// OperatorNamespace is the namespace of the operator's tunnel proxies; "" if there are none.
	OperatorNamespace string
	// Servers are the addresses of API servers. They are not read while the existing endpoints forward to
	// the end of the tunnel.
	Servers []string
	// ServersRefused is the API server's error if reading Servers is forbidden, otherwise "".
	ServersRefused string
	// Limits are the limits of the tunnel.
	Limits Limits
	// Now is the time, to which the last check of the tunnel is compared.
	Now time.Time
}

// The old form of endpoints, which is only written where Limits ask for it.
type (
	oldEndpoints     = corev1.Endpoints       //nolint:staticcheck // For those who read nothing else.
	oldEndpointsList = corev1.EndpointsList   //nolint:staticcheck // As above.
	oldSubset        = corev1.EndpointSubset  //nolint:staticcheck // As above.
	oldAddress       = corev1.EndpointAddress //nolint:staticcheck // As above.
	oldPort          = corev1.EndpointPort    //nolint:staticcheck // As above.
)

// oldEndpointsKind is its kind.
func oldEndpointsKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("Endpoints")
}

// holderUnwatched reports whether the status names a pod at the end of the tunnel outside the operator's
// namespace. Only pods of that namespace are watched.
func (in Input) holderUnwatched() bool {
	tunnel := in.Workload.Status.Tunnel
	return tunnel != nil && tunnel.Info != nil && tunnel.Info.TunnelProxyPodName != "" &&
		!slices.ContainsFunc(in.Holders, func(p corev1.Pod) bool { return p.Namespace == in.OperatorNamespace })
}

// written returns the external workload as it was read.
func (in Input) written() *crdv1.SignadotExternalWorkload { return cmp.Or(in.Written, in.Workload) }

// takesRequests reports whether there is a baseline from which requests are diverted.
func (in Input) takesRequests() bool {
	_, ok := in.Workload.BaselineRef()
	return ok
}

// reached reports whether the diversion of requests is known: there is nothing to divert, the baseline is
// known, or it was known and the status records it.
func (in Input) reached() bool {
	status := in.Workload.Status
	return !in.takesRequests() || in.Known() ||
		status.RoutingConfig != nil && member.StatusIsCurrent(in.Workload, status.ObservedGeneration, in.ownServices())
}

// ownServices returns the Services that the external workload owns.
func (in Input) ownServices() []*corev1.Service {
	return member.SurplusServices(in.Services, in.Workload.UID, nil)
}
