package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	routesv1 "switchyard.dev/protos/gen/routes"
)

// errUnknown: the first list of Services has not come yet.
var errUnknown = errors.New("the first list of Services has not come yet")

// Lister keeps a copy of the Services of a cluster.
type Lister struct {
	informer cache.SharedIndexInformer
	services corelisters.ServiceLister
	logger   *slog.Logger

	mu   sync.Mutex
	last error // why the copy is not fresh, while there is none
}

// New gives a Lister that knows nothing until Run.
func New(client kubernetes.Interface, logger *slog.Logger) (*Lister, error) {
	services := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(strip)).Core().V1().Services()
	l := &Lister{informer: services.Informer(), services: services.Lister(), logger: logger}
	if err := l.informer.SetWatchErrorHandlerWithContext(l.failed); err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	return l, nil
}

// Run keeps the copy fresh until ctx ends.
func (l *Lister) Run(ctx context.Context) { l.informer.RunWithContext(ctx) }

// List gives every Service that has an address, sorted by hostname. Before the
// first list has come it is an error that says why it has not.
func (l *Lister) List(context.Context) ([]*routesv1.ClusterService, error) {
	if !l.informer.HasSynced() {
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, errors.Join(errUnknown, l.last)
	}
	all, err := l.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return Describe(all), nil
}

// failed is told when listing or watching fails; the informer tries again.
func (l *Lister) failed(_ context.Context, _ *cache.Reflector, err error) {
	l.logger.Warn("Services cannot be listed or watched; trying again", "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = err
}

// strip leaves what Describe reads: the copy of a large cluster stays small.
func strip(object any) (any, error) {
	s, ok := object.(*corev1.Service)
	if !ok {
		return object, nil // a tombstone
	}
	kept := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion, Annotations: map[string]string{},
		},
		Spec: corev1.ServiceSpec{ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports},
	}
	for _, name := range annotationsRead {
		if value, ok := s.Annotations[name]; ok {
			kept.Annotations[name] = value
		}
	}
	return kept, nil
}
