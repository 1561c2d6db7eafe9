package agent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// managed are the resources that a control plane creates for its users. The operator creates all others
// from these.
var managed = []string{"signadotsandboxes", "signadotroutegroups", "jobs", "jobrunnergroups"}

const (
	// reportEvery is how often objects are compared while there is a session.
	reportEvery = 5 * time.Minute
	// sessionEvery is how often it is checked whether there is one.
	sessionEvery = time.Second
	// reportedNames bounds the names in a record.
	reportedNames = 20
)

// unknown reports objects that the control plane does not know: those without its annotation. It
// deletes none (record 62).
type unknown struct {
	client metadata.Interface
	logger *slog.Logger
	gauge  *prometheus.GaugeVec
	last   map[string][]string // the names that were reported last, by resource
}

// run reports while there is a session, until ctx ends.
func (u *unknown) run(ctx context.Context, of *link.Agent) {
	for {
		wait := sessionEvery
		if state, _ := of.State(); state.Kind == link.Up {
			for _, resource := range managed {
				u.report(ctx, resource)
			}
			wait = reportEvery
		}
		if !wake.Sleep(ctx, wait) {
			return
		}
	}
}

// report counts the unknown objects of one resource, and logs them if they are others than before.
func (u *unknown) report(ctx context.Context, resource string) {
	names, err := u.list(ctx, resource)
	if err != nil {
		if ctx.Err() == nil && !apierrors.IsNotFound(err) {
			u.logger.Warn("the objects of a resource could not be compared with those of the control plane", "resource", resource, "error", err)
		}
		return
	}
	u.gauge.WithLabelValues(resource).Set(float64(len(names)))
	changed := !slices.Equal(names, u.last[resource])
	if u.last[resource] = names; changed && len(names) > 0 {
		u.logger.Warn("objects that the control plane does not know are kept: delete them, or set allowOrphanedResources=true to leave out this report",
			"resource", resource, "count", len(names), "names", names[:min(len(names), reportedNames)])
	}
}

// list returns the names of the unknown objects of a resource.
func (u *unknown) list(ctx context.Context, resource string) (names []string, err error) {
	objects := u.client.Resource(schema.GroupVersionResource{Group: crdv1.Group, Version: "v1", Resource: resource})
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, options)
	})
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		one, err := meta.Accessor(o)
		if err == nil && !metav1.HasAnnotation(metav1.ObjectMeta{Annotations: one.GetAnnotations()}, crdv1.AnnotationGeneration) {
			names = append(names, cache.MetaObjectToName(one).String())
		}
		return err
	})
	return names, err
}
