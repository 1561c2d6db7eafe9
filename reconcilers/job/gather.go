package job

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/workflows/jobs"
)

// IndexTarget is the name of an index of Jobs by their sandbox or route group.
const IndexTarget = "spec.routingContext"

// Index makes the indexes of Jobs.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	by := func(value func(*crdv1.Job) string) client.IndexerFunc {
		return func(o client.Object) []string {
			if j, is := o.(*crdv1.Job); is && value(j) != "" {
				return []string{value(j)}
			}
			return nil
		}
	}
	if err := indexer.IndexField(ctx, &crdv1.Job{}, apply.IndexRunnerGroup, by(func(j *crdv1.Job) string {
		return j.Spec.RunnerGroup.Namespace + "/" + j.Spec.RunnerGroup.Name
	})); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &crdv1.Job{}, IndexTarget, by(func(j *crdv1.Job) string {
		if o := targetOf(j); o != nil {
			return target(o)
		}
		return ""
	}))
}

// target returns the value of IndexTarget for a sandbox or route group.
func target(o client.Object) string {
	if _, is := o.(*crdv1.SignadotSandbox); is {
		return crdv1.KindSandbox + "/" + o.GetName()
	}
	return crdv1.KindRouteGroup + "/" + o.GetName()
}

// targetOf returns an object with the kind and the name of what a job runs against; nil: the baseline.
func targetOf(j *crdv1.Job) crdv1.Object {
	switch c := j.Spec.RoutingContext; {
	case c == nil:
		return nil
	case c.SandboxName != "":
		return &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: c.SandboxName}}
	case c.RouteGroupName != "":
		return &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: c.RouteGroupName}}
	}
	return nil
}

// gather reads what counts for the jobs of a group.
func (r *Reconciler) gather(ctx context.Context, m *memory, name types.NamespacedName, g *crdv1.JobRunnerGroup) (Input, error) {
	in := Input{Group: g, Limits: r.config.Limits, Now: r.now()}
	if g != nil && g.DeletionTimestamp != nil { // Jobs end for that, and the cache may be behind.
		in.Group = &crdv1.JobRunnerGroup{}
		if err := r.config.Live.Get(ctx, name, in.Group); apierrors.IsNotFound(err) {
			in.Group = nil
		} else if err != nil {
			return in, fmt.Errorf("read runner group %s: %w", name, err)
		}
		g = in.Group
	}
	own, err := r.jobsOf(ctx, m, name)
	if err != nil {
		return in, err
	}
	m.drops(own)
	if m.turns == nil {
		m.turns = jobs.Served(own)
	}
	in.Turns = m.turns
	pods, err := r.podsOf(ctx, m, name, g)
	if err != nil {
		return in, err
	}
	for _, p := range pods {
		if g != nil && g.Runner(p.UID) != nil {
			in.Pods = append(in.Pods, p)
		}
	}
	reading := &reading{Reconciler: r, pods: pods, contexts: map[string]crdv1.Object{}, gone: map[types.UID]bool{}}
	for _, j := range own {
		one, err := reading.of(ctx, m, j, g, in.Now)
		if err != nil {
			return in, err
		}
		in.Jobs = append(in.Jobs, one)
	}
	maps.DeleteFunc(m.last, func(uid types.UID, p *corev1.Pod) bool { return !slices.Contains(pods, p) && !reading.gone[uid] })
	return in, nil
}

// jobsOf returns the jobs of a group.
func (r *Reconciler) jobsOf(ctx context.Context, m *memory, name types.NamespacedName) ([]*crdv1.Job, error) {
	var list crdv1.JobList
	if err := r.config.Client.List(ctx, &list, client.MatchingFields{apply.IndexRunnerGroup: name.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the jobs of runner group %s: %w", name, err)
	}
	var out []*crdv1.Job
	for i := range list.Items {
		out = append(out, m.jobs.newest(&list.Items[i]))
	}
	m.jobs.keep(out)
	return out, nil
}

// podsOf returns the pods of a group.
func (r *Reconciler) podsOf(ctx context.Context, m *memory, name types.NamespacedName, g *crdv1.JobRunnerGroup) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.config.Pods.List(ctx, &list, client.InNamespace(name.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{crdv1.JobRunnerGroupLabel: crdv1.LabelValue(name.Name)}); err != nil {
		return nil, fmt.Errorf("list the pods of runner group %s: %w", name, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; g == nil || apply.IsOwned(p, g.UID) {
			out = append(out, m.pods.newest(p))
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	m.pods.keep(out)
	for _, p := range out {
		m.last[p.UID] = p
	}
	return out, nil
}

// reading reads what counts for single jobs, each object once.
type reading struct {
	*Reconciler
	pods     []*corev1.Pod
	contexts map[string]crdv1.Object
	gone     map[types.UID]bool
}

// of returns what counts for one job.
func (r *reading) of(ctx context.Context, m *memory, j *crdv1.Job, g *crdv1.JobRunnerGroup, now time.Time) (jobs.Input, error) {
	in := jobs.Input{Job: j, Group: g, Now: now, Rests: atrest.Shown(j) || g != nil && atrest.Shown(g)}
	if r.uploader.Has(j) {
		in.Stored = r.config.Limits.Keep
	}
	ended := j.Status.State != nil && j.Status.State.Terminated != nil
	if !ended {
		o, err := r.context(ctx, j)
		if err != nil {
			return in, err
		}
		in.Context = jobs.ContextOf(j, o, now)
		in.Context.Headers = r.config.KeyHeaders
	}
	e := j.Status.Execution
	if e == nil || !e.Begun || ended && e.Output != nil && e.Output.State != crdv1.OutputKept {
		return in, nil
	}
	if f := m.followers[j.UID]; f != nil && f.ref.GetExecution() == uint32(e.Count) {
		in.Runner = f.known()
	}
	in.Runner.Dropped = m.dropped[j.UID] == uint32(e.Count)
	if r.uploader.Stores(j) {
		in.Runner.Stored, in.Runner.Storing, in.Runner.Unstored = m.uploads[j.UID].Known()
	}
	in.Runner.Released = m.released.has(j.UID, e.Count)
	var err error
	in.Runner.Pod, in.Runner.Gone, err = r.pod(ctx, m, j)
	return in, err
}

// pod returns the pod of the recorded execution of a job, or whether it does not exist. The API server is
// read if the cache does not have it.
func (r *reading) pod(ctx context.Context, m *memory, j *crdv1.Job) (*corev1.Pod, bool, error) {
	uid, ref := types.UID(j.Status.Execution.PodUID), j.Status.Runner
	if i := slices.IndexFunc(r.pods, func(p *corev1.Pod) bool { return p.UID == uid }); i >= 0 {
		return r.pods[i], false, nil
	}
	if gone, known := r.gone[uid]; known || ref == nil {
		return m.last[uid], gone || ref == nil, nil
	}
	live := &corev1.Pod{}
	err := r.config.Live.Get(ctx, client.ObjectKey{Namespace: ref.RunnerPod.Namespace, Name: ref.RunnerPod.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("read pod %s/%s of job %s: %w", ref.RunnerPod.Namespace, ref.RunnerPod.Name, j.Name, err)
	}
	if err == nil && live.UID == uid {
		return live, false, nil
	}
	r.gone[uid] = true
	return m.last[uid], true, nil
}

// context returns the sandbox or route group of a job; nil if there is none. The API server is read if the
// cache does not have it.
func (r *reading) context(ctx context.Context, j *crdv1.Job) (crdv1.Object, error) {
	o := targetOf(j)
	if o == nil {
		return nil, nil
	}
	key := target(o)
	if known, is := r.contexts[key]; is {
		return known, nil
	}
	err := r.config.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		err = r.config.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
	}
	if apierrors.IsNotFound(err) {
		r.contexts[key] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of job %s: %w", key, j.Name, err)
	}
	r.contexts[key] = o
	return o, nil
}

// absent returns which of these UIDs the API server has no Job of.
func (r *Reconciler) absent(ctx context.Context, uids []types.UID) (map[types.UID]bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(crdv1.KindJob + "List"))
	if err := r.config.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list jobs past the cache: %w", err)
	}
	out := map[types.UID]bool{}
	for _, uid := range uids {
		out[uid] = !slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool { return o.UID == uid })
	}
	return out, nil
}
