package jobs

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/workflows/jobs/published"
)

// cluster is the site of a kubeconfig.
type cluster struct {
	s         *command.Session
	c         client.WithWatch
	namespace string

	mu     sync.Mutex
	runner *runner // of the job that was read last
}

// found returns the runner group of a name.
func (c *cluster) found(ctx context.Context, name string) (*crdv1.JobRunnerGroup, error) {
	var all crdv1.JobRunnerGroupList
	err := c.c.List(ctx, &all, client.InNamespace(c.namespace), client.MatchingFields{"metadata.name": name})
	at := lists.Map(all.Items, func(g crdv1.JobRunnerGroup) string { return g.Namespace })
	switch {
	case apierrors.IsForbidden(err) && c.namespace == "":
		return nil, exit.Failed.Errorf("you have no right to list runner groups in all namespaces: give that of %s with --namespace (%w)", name, err)
	case err != nil:
		return nil, fmt.Errorf("find runner group %s: %w", name, err)
	case len(at) == 0 && c.namespace != "":
		return nil, exit.No.Errorf("there is no runner group %s in namespace %s; %s jobrunnergroup list shows the existing ones", name, c.namespace, c.s.Name)
	case len(at) == 0:
		return nil, exit.No.Errorf("there is no runner group %s; %s jobrunnergroup list shows the existing ones", name, c.s.Name)
	case len(at) > 1:
		return nil, exit.Usage.Errorf("there are runner groups %s in the namespaces %s: choose one with --namespace", name, strings.Join(at, ", "))
	}
	return &all.Items[0], nil
}

func (c *cluster) submit(ctx context.Context, spec v2.JobSpec) (out v2.Job, err error) {
	j, err := published.Job(spec, "")
	if err != nil {
		return out, err
	}
	g, err := c.found(ctx, *spec.RunnerGroup)
	if err != nil {
		return out, err
	}
	j.Spec.RunnerGroup.Namespace = g.Namespace
	j.Finalizers = []string{crdv1.Finalizer} // The operator adds it to Jobs of other programs, by another write.
	if err := c.c.Create(ctx, j, client.FieldValidation("Strict")); err != nil {
		return out, fmt.Errorf("create a Job: %w", err)
	}
	return published.ReportOfJob(j), nil
}

// object reads a Job.
func (c *cluster) object(ctx context.Context, name string) (*crdv1.Job, error) {
	j := &crdv1.Job{}
	err := c.c.Get(ctx, client.ObjectKey{Name: name}, j)
	if apierrors.IsNotFound(err) {
		return nil, exit.No.Errorf("there is no job %s: it is deleted, or never was (%w)", name, err)
	}
	return j, err
}

func (c *cluster) job(ctx context.Context, name string) (out v2.Job, err error) {
	j, err := c.object(ctx, name)
	if err == nil {
		out = published.ReportOfJob(j)
	}
	return out, err
}

func (c *cluster) jobs(ctx context.Context) ([]v2.Job, error) {
	var all crdv1.JobList
	err := c.c.List(ctx, &all)
	return lists.Map(all.Items, func(j crdv1.Job) v2.Job { return published.ReportOfJob(&j) }), err
}

func (c *cluster) cancel(ctx context.Context, name string) (out v2.Job, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		j, err := c.object(ctx, name)
		if err != nil {
			return err
		}
		out = published.ReportOfJob(j)
		if final(out) || j.Spec.Canceled {
			return nil
		}
		j.Spec.Canceled = true
		return c.c.Update(ctx, j)
	})
	return out, err
}

func (c *cluster) changed(ctx context.Context, was v2.Job) (v2.Job, error) {
	some, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	w, err := c.c.Watch(some, &crdv1.JobList{}, client.MatchingFields{"metadata.name": was.Name})
	if err != nil {
		<-some.Done()
		return c.job(ctx, was.Name)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if j, is := e.Object.(*crdv1.Job); is && e.Type != watch.Deleted {
			if now := published.ReportOfJob(j); !reflect.DeepEqual(now, was) {
				return now, nil
			}
		}
	}
	<-some.Done()
	return c.job(ctx, was.Name)
}

func (c *cluster) artifacts(ctx context.Context, name string) ([]v2.JobArtifact, error) {
	j, err := c.object(ctx, name)
	if err != nil {
		return nil, err
	}
	return published.ArtifactsOf(j), nil
}

func (c *cluster) apply(ctx context.Context, name string, spec v2.JobRunnerGroupSpec) (out v2.JobRunnerGroup, err error) {
	g, err := published.Group(name, spec, c.s.Cluster.Namespace)
	if err != nil {
		return out, err
	}
	if spec.Scaling != nil && spec.Scaling.Auto != nil {
		return out, exit.Usage.Errorf("spec.scaling.auto needs a control plane: use spec.scaling.manual, or a HorizontalPodAutoscaler of the JobRunnerGroup")
	}
	there := &crdv1.JobRunnerGroup{}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := c.c.Get(ctx, client.ObjectKeyFromObject(g), there)
		if apierrors.IsNotFound(err) {
			there = g
			return c.c.Create(ctx, g, client.FieldValidation("Strict"))
		}
		if err != nil {
			return err
		}
		replicas := there.Spec.Replicas
		if there.Spec = g.Spec; g.Spec.Replicas == nil { // Its autoscaler has set it.
			there.Spec.Replicas = replicas
		}
		delete(there.Annotations, crdv1.AnnotationLabels)
		there.Annotations = lists.Merged(there.Annotations, g.Annotations)
		return c.c.Update(ctx, there, client.FieldValidation("Strict"))
	})
	return published.ReportOfGroup(there, nil), err
}

func (c *cluster) group(ctx context.Context, name string) (out v2.JobRunnerGroup, err error) {
	g, err := c.found(ctx, name)
	if err != nil {
		return out, err
	}
	var all crdv1.JobList
	err = c.c.List(ctx, &all)
	return published.ReportOfGroup(g, all.Items), err
}

func (c *cluster) groups(ctx context.Context) (out []v2.JobRunnerGroup, err error) {
	var all crdv1.JobRunnerGroupList
	if err := c.c.List(ctx, &all, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	var of crdv1.JobList
	err = c.c.List(ctx, &of)
	for i := range all.Items {
		out = append(out, published.ReportOfGroup(&all.Items[i], of.Items))
	}
	return slices.Clip(out), err
}

func (c *cluster) remove(ctx context.Context, name string) error {
	g, err := c.found(ctx, name)
	if err == nil {
		err = client.IgnoreNotFound(c.c.Delete(ctx, g))
	}
	return err
}
