package agent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"switchyard.dev/controlplane-link/link"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// managed are the resources that a control plane creates for its users. The operator creates all others
// from these.
var managed = []string{"signadotsandboxes", "signadotroutegroups", "jobs", "jobrunnergroups"}

const (
	// reportEvery is how often objects are compared while there is a session.
	reportEvery = 5 * time.Minute
	// reportedNames bounds the names in a record, and reportPage the objects of one request.
	reportedNames, reportPage = 20, 500
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
	for ctx.Err() == nil {
		state, changed := of.State()
		if state.Kind != link.Up {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		for _, resource := range managed {
			u.report(ctx, resource)
		}
		select {
		case <-time.After(reportEvery):
		case <-ctx.Done():
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
	if slices.Equal(names, u.last[resource]) {
		return
	}
	if u.last[resource] = names; len(names) == 0 {
		return
	}
	u.logger.Warn("objects that the control plane does not know are kept: delete them, or set allowOrphanedResources=true to leave out this report",
		"resource", resource, "count", len(names), "names", names[:min(len(names), reportedNames)])
}

// list returns the names of the unknown objects of a resource.
func (u *unknown) list(ctx context.Context, resource string) (names []string, err error) {
	objects := u.client.Resource(schema.GroupVersionResource{Group: crdv1.Group, Version: "v1", Resource: resource})
	for options := (metav1.ListOptions{Limit: reportPage}); ; {
		page, err := objects.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			if _, known := o.Annotations[crdv1.AnnotationGeneration]; !known {
				name := o.Name
				if o.Namespace != "" {
					name = o.Namespace + "/" + name
				}
				names = append(names, name)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return names, nil
		}
	}
}
