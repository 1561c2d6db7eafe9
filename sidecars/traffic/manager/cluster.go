package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
)

// cluster has the TrafficCaptures and ForkedWorkloads of the cluster in memory. Its users owe the rights to list and watch both.
type cluster struct {
	cache   cache.Cache
	changed wake.Signal // of a capture
	ready   atomic.Bool
}

func watched(access *rest.Config) (*cluster, error) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	known, err := cache.New(access, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, fmt.Errorf("traffic-manager: watch the cluster: %w", err)
	}
	return &cluster{cache: known}, nil
}

// follow sets ready once the caches have synced, and sends changes.
func (c *cluster) follow(ctx context.Context) error {
	captures, err := c.cache.GetInformer(ctx, &crdv1.TrafficCapture{})
	if err == nil {
		_, err = c.cache.GetInformer(ctx, &crdv1.ForkedWorkload{})
	}
	if err == nil {
		note := func(any) { c.changed.Send() }
		_, err = captures.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: note})
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("traffic-manager: watch the cluster: %w", err)
	}
	if err == nil && c.cache.WaitForCacheSync(ctx) {
		c.ready.Store(true)
		c.changed.Send()
	}
	<-ctx.Done()
	return nil
}

// captures returns the TrafficCaptures of a namespace; of all for "". They are not to be changed.
func (c *cluster) captures(ctx context.Context, namespace string) ([]crdv1.TrafficCapture, error) {
	var all crdv1.TrafficCaptureList
	err := c.list(ctx, &all, namespace)
	return all.Items, err
}

var errNotSynced = errors.New("the caches of cluster objects have not synced yet")

func (c *cluster) list(ctx context.Context, all client.ObjectList, namespace string) error {
	if !c.ready.Load() {
		return errNotSynced
	}
	return c.cache.List(ctx, all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
}

// isFork reports whether a ForkedWorkload names a workload as its fork.
func (c *cluster) isFork(ctx context.Context, w table.Workload) (bool, error) {
	var all crdv1.ForkedWorkloadList
	if err := c.list(ctx, &all, w.Namespace); err != nil {
		return false, err
	}
	for i := range all.Items {
		if fork := all.Items[i].Status.Fork; fork != nil && fork.ObjectRef != nil && fork.ObjectRef.Name == w.Name && kinds[fork.ObjectRef.Kind] == w.Kind {
			return true, nil
		}
	}
	return false, nil
}

// kinds are the kinds of forks, as the routes API names them.
var kinds = map[string]string{"Deployment": "Deployment", "Rollout": "ArgoRollout", "ArgoRollout": "ArgoRollout"}
