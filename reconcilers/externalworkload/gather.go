package externalworkload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// gather reads all that counts for an external workload from the cache, but for where API
// servers are. Lists are not copied, so nothing of the Input may be changed.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
func (r *Reconciler) gather(ctx context.Context, w *crdv1.SignadotExternalWorkload) (Input, error) {
	c := r.config.Client
	in := Input{Workload: w, Seen: member.Seen{Injected: r.config.Injected}, Limits: r.config.Limits, Now: r.config.Now(), OperatorNamespace: r.proxies()}
	if err := in.gatherOwn(ctx, c); err != nil {
		return in, err
	}
	var err error
	if in.Captures, err = recorders.AttachedTo(ctx, c, w); err != nil {
		return in, err
	}
	in.Report = r.proxyReport(w)
	in.TakeHolder()
	if err := in.gatherHolders(ctx, c, r.config.Live); err != nil {
		return in, err
	}
	in.NoteLost()
	if err := in.gatherServers(ctx, r.config.Live); err != nil {
		return in, err
	}
	if !in.takesRequests() || !acceptBaseline(w).IsTrue() {
		return in, nil
	}
	services, err := baseline.ServicesIn(ctx, c, w.Namespace)
	if err == nil {
		in.Neighbours, err = in.Look(ctx, c, w, services)
	}
	return in, err
}

// gatherOwn reads the objects created for the external workload.
func (in *Input) gatherOwn(ctx context.Context, c client.Reader) error {
	var services corev1.ServiceList
	var leading discoveryv1.EndpointSliceList
	var endpoints oldEndpointsList
	lists := []client.ObjectList{&services, &leading}
	if in.Limits.WriteEndpoints {
		lists = append(lists, &endpoints)
	}
	for _, list := range lists {
		err := c.List(ctx, list, client.InNamespace(in.Workload.Namespace),
			client.MatchingFields{apply.IndexOwner: string(in.Workload.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("list what SignadotExternalWorkload %s/%s has made: %w", in.Workload.Namespace, in.Workload.Name, err)
		}
	}
	in.Services, in.Slices, in.Endpoints = services.Items, leading.Items, endpoints.Items
	return nil
}

// proxies returns the namespace of the operator's tunnel proxies, "" if the operator has no access to it.
func (r *Reconciler) proxies() string {
	if n := r.config.Namespaces; len(n) > 0 && !slices.Contains(n, r.config.OperatorNamespace) {
		return ""
	}
	return r.config.OperatorNamespace
}

// proxyReport returns the reports of the operator's tunnel proxies about an external workload; nil if they are
// not polled.
func (r *Reconciler) proxyReport(w *crdv1.SignadotExternalWorkload) *ProxyReport {
	if r.config.Tunnels == nil {
		return nil
	}
	var out ProxyReport
	if h, ok := r.config.Tunnels.Look(holders.Workload{Namespace: w.Namespace, Name: w.Name, UID: string(w.UID)}); ok {
		out.Holder = &h
	}
	if info := tunnelInfo(w); info != nil {
		out.Awaited = r.config.Tunnels.Awaited(info.TunnelProxyPodName)
	}
	return &out
}

// gatherHolders reads the pods that the status may mean as the end of the tunnel: those of
// the operator's namespace from the cache, which has all of them, and others past it.
func (in *Input) gatherHolders(ctx context.Context, c, live client.Reader) error {
	tunnel := in.Workload.Status.Tunnel
	if tunnel == nil || tunnel.Info == nil || tunnel.Info.TunnelProxyPodName == "" {
		return nil
	}
	namespaces := []string{in.Workload.Namespace}
	if in.OperatorNamespace != "" && in.OperatorNamespace != in.Workload.Namespace {
		namespaces = append(namespaces, in.OperatorNamespace)
	}
	for _, namespace := range namespaces {
		pod, from := corev1.Pod{}, live
		if namespace == in.OperatorNamespace {
			from = c
		}
		key := client.ObjectKey{Namespace: namespace, Name: tunnel.Info.TunnelProxyPodName}
		switch err := from.Get(ctx, key, &pod); {
		case err == nil:
			in.Holders = append(in.Holders, pod)
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read pod %s, the reported end of the tunnel: %w", key, err)
		}
	}
	return nil
}

// gatherServers reads the published addresses of API servers if the status has a tunnel to which no
// endpoints of the operator forward yet. Otherwise the address was checked before; addresses that no pod
// can have are refused without this check.
func (in *Input) gatherServers(ctx context.Context, live client.Reader) error {
	tunnel := in.Workload.Status.Tunnel
	if tunnel == nil || tunnel.Info == nil {
		return nil
	}
	end, problem := endOf(*tunnel.Info)
	if problem != "" || slices.ContainsFunc(in.Slices, func(s discoveryv1.EndpointSlice) bool {
		return apply.IsOwned(&s, in.Workload.UID) && among(addressesOf(s), end)
	}) {
		return nil
	}
	var servers discoveryv1.EndpointSlice
	err := live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &servers)
	if apierrors.IsForbidden(err) {
		in.ServersRefused = err.Error()
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the addresses of API servers, which are refused as ends of tunnels: %w", err)
	}
	in.Servers = addressesOf(servers)
	return nil
}

// addressesOf returns all addresses of an EndpointSlice.
func addressesOf(s discoveryv1.EndpointSlice) []string {
	return slices.Concat(lists.Map(s.Endpoints, func(e discoveryv1.Endpoint) []string { return e.Addresses })...)
}

// indexHolder finds external workloads by the pod that their status names as the end of
// the tunnel.
const indexHolder = "status.tunnel.info.tunnelProxyPodName"

// Index adds the index with which this package finds external workloads.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotExternalWorkload{}, indexHolder, byHolderName)
}

// byHolderName returns the name of the pod that holds the tunnel of an external workload.
func byHolderName(o client.Object) []string {
	w, ok := o.(*crdv1.SignadotExternalWorkload)
	if !ok || w.Status.Tunnel == nil || w.Status.Tunnel.Info == nil || w.Status.Tunnel.Info.TunnelProxyPodName == "" {
		return nil
	}
	return []string{w.Status.Tunnel.Info.TunnelProxyPodName}
}

// byHolder maps a pod to the external workloads with a tunnel that it may hold: those in its namespace,
// and for a pod in the operator's namespace those in all namespaces.
func (r *Reconciler) byHolder(ctx context.Context, pod client.Object) []reconcile.Request {
	options := []client.ListOption{client.MatchingFields{indexHolder: pod.GetName()}}
	if pod.GetNamespace() != r.proxies() {
		options = append(options, client.InNamespace(pod.GetNamespace()))
	}
	return controller.Requests(ctx, r.config.Client, &crdv1.SignadotExternalWorkloadList{}, options...)
}

// holderChanged filters out updates of a pod that change neither whether it is allowed to hold a tunnel
// nor its addresses.
func holderChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	return !okA || !okB || b.UID != a.UID || b.Status.Phase != a.Status.Phase ||
		!slices.Equal(b.Status.PodIPs, a.Status.PodIPs) || !maps.Equal(b.Labels, a.Labels)
}

// Watch adds watches for baselines, for Services and endpoints of tunnels, and for the pods at their ends.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	baseline.Watch(b, baseline.Members{Client: mgr.GetClient(), List: func() client.ObjectList { return &crdv1.SignadotExternalWorkloadList{} }}).
		Owns(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&crdv1.TrafficCapture{}, controller.Enqueue(recorders.Members(crdv1.KindExternalWorkload)), builder.WithPredicates(controller.Updates(recorders.Changed))).
		Watches(&corev1.Pod{}, controller.Enqueue(r.byHolder), builder.WithPredicates(controller.Updates(holderChanged)))
	if r.config.Limits.WriteEndpoints {
		b.Owns(&oldEndpoints{})
	} else if err := mgr.Add(manager.RunnableFunc(r.clearEndpoints)); err != nil {
		return fmt.Errorf("add what deletes former endpoints: %w", err)
	}
	return nil
}

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
	// Captures are those that are attached for it.
	Captures []crdv1.TrafficCapture
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
