package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	routesv1 "switchyard.dev/protos/gen/routes"
)

// Lister keeps a copy of the Services of a cluster, and of the hosts behind them
// that have names.
type Lister struct {
	services  corelisters.ServiceLister
	endpoints discoverylisters.EndpointSliceLister
	copies    [2]*copied
}

// New returns a Lister that knows nothing until Run.
func New(client kubernetes.Interface, logger *slog.Logger) (*Lister, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(strip))
	services, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	l := &Lister{services: services.Lister(), endpoints: endpoints.Lister(), copies: [2]*copied{
		{of: "Services", informer: services.Informer(), logger: logger},
		{of: "EndpointSlices", informer: endpoints.Informer(), logger: logger},
	}}
	for _, c := range l.copies {
		if err := c.informer.SetWatchErrorHandlerWithContext(c.failed); err != nil {
			return nil, fmt.Errorf("services: %w", err)
		}
	}
	return l, nil
}

// Run keeps the copies fresh until ctx ends.
func (l *Lister) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range l.copies {
		running.Go(func() { c.informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// List returns the result of Describe for the cluster. Before the first lists have arrived it
// returns the error that delays them.
func (l *Lister) List(context.Context) ([]*routesv1.ClusterService, error) {
	var unknown []error
	for _, c := range l.copies {
		unknown = append(unknown, c.unknown())
	}
	if err := errors.Join(unknown...); err != nil {
		return nil, err
	}
	services, err := l.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	endpoints, err := l.endpoints.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return Describe(services, endpoints), nil
}

// copied is the copy of one kind of object.
type copied struct {
	of       string
	informer cache.SharedIndexInformer
	logger   *slog.Logger

	mu   sync.Mutex
	last error // why the copy is not fresh, while there is none
}

// unknown returns why nothing is known, or nil once something is.
func (c *copied) unknown() error {
	if c.informer.HasSynced() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		return fmt.Errorf("the first list of %s has not come yet: %w", c.of, c.last)
	}
	return fmt.Errorf("the first list of %s has not come yet", c.of)
}

// failed records an error of a list or watch; the informer retries.
func (c *copied) failed(_ context.Context, _ *cache.Reflector, err error) {
	c.logger.Warn("objects of the cluster cannot be listed or watched; trying again", "kind", c.of, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = err
}

// strip leaves what Describe reads: the copy of a large cluster stays small.
func strip(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Service:
		return stripService(o), nil
	case *discoveryv1.EndpointSlice:
		return stripEndpoints(o), nil
	default:
		return object, nil // a tombstone
	}
}

func stripService(s *corev1.Service) *corev1.Service {
	kept := &corev1.Service{
		ObjectMeta: meta(s.ObjectMeta),
		Spec:       corev1.ServiceSpec{ClusterIP: s.Spec.ClusterIP, IPFamilies: s.Spec.IPFamilies, Ports: s.Spec.Ports},
	}
	for _, name := range annotationsRead {
		if value, ok := s.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	return kept
}

// stripEndpoints keeps the endpoints that have their own name; most slices have none. Only the
// Service shows whether it is headless: the label for that is missing on slices created by users.
func stripEndpoints(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: meta(s.ObjectMeta), AddressType: s.AddressType}
	for _, e := range s.Endpoints {
		if addressable(e) {
			kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses[:1], Hostname: e.Hostname})
		}
	}
	if len(kept.Endpoints) > 0 {
		kept.Ports = s.Ports
		metav1.SetMetaDataLabel(&kept.ObjectMeta, discoveryv1.LabelServiceName, s.Labels[discoveryv1.LabelServiceName])
	}
	return kept
}

func meta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
