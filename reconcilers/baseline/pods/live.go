package pods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/optional"
)

const (
	// Fresh is how long a result of the API server is valid.
	Fresh = 10 * time.Second
	// page is the number of pods in one request.
	page = 500
	// mostOfOne is the maximum number of pods without the label that are read for one workload. More pods
	// would not change the result.
	mostOfOne = 4 * page
	// mostTogether is how many workloads one request is for: their labels are in its URL.
	mostTogether = 100
	// patience bounds one question.
	patience = 15 * time.Second
)

// question identifies a query: the selected pods, and the version of their workload.
type question struct{ namespace, selector, version string }

// answer is the result of the API server. All fields except done are set before done is closed.
type answer struct {
	done chan struct{}
	at   time.Time
	pods []corev1.Pod
	err  error
}

// query is a question with the selector in it, and its answer, which may be shared with later queries.
type query struct {
	question
	selector labels.Selector
	*answer
}

// queryOf returns the query for the pods of a workload, which selector selects.
func queryOf(w *baseline.Workload, selector labels.Selector) query {
	q := query{question{namespace: w.Ref.Namespace, selector: selector.String()}, selector, &answer{done: make(chan struct{})}}
	if w.Object != nil {
		q.version = w.Object.GetResourceVersion()
	}
	return q
}

// is reports whether the result is available and valid.
func (a *answer) is() bool {
	select {
	case <-a.done:
		return a.err == nil
	default:
		return false
	}
}

// PodsOf returns the pods of a workload, which selector selects: those that carry the
// label from memory, the others from the API server. They are shared.
func (p *Pods) PodsOf(ctx context.Context, w *baseline.Workload, selector labels.Selector) ([]corev1.Pod, error) {
	held, err := p.held(ctx, client.InNamespace(w.Ref.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	others, err := p.unlabelled(ctx, queryOf(w, selector))
	if err != nil || len(others) == 0 {
		return held, err
	}
	return append(held[:len(held):len(held)], others...), nil
}

// unlabelled returns the pods that lack the label. Concurrent queries with the same parameters are merged.
func (p *Pods) unlabelled(ctx context.Context, q query) ([]corev1.Pod, error) {
	p.mu.Lock()
	a, asked := p.answers[q.question]
	if !asked || a.is() && time.Since(a.at) > Fresh {
		maps.DeleteFunc(p.answers, func(_ question, a *answer) bool { return a.is() && time.Since(a.at) > Fresh })
		a = q.answer
		p.answers[q.question] = a
		go p.ask(context.WithoutCancel(ctx), q)
	}
	p.mu.Unlock()
	select {
	case <-a.done:
		return a.pods, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("list the pods without a label of the operator: %w", ctx.Err())
	}
}

// queryAll begins to query the pods of workloads, with one request for all of a namespace.
func (p *Pods) queryAll(ctx context.Context, all map[crdv1.ObjectRef]*baseline.Workload) {
	of := map[string][]query{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, w := range all {
		if w == nil {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(w.Selector); err == nil {
			q := queryOf(w, selector)
			p.answers[q.question] = q.answer
			of[ref.Namespace] = append(of[ref.Namespace], q)
		}
	}
	for _, some := range of {
		for some := range slices.Chunk(some, mostTogether) {
			go p.ask(context.WithoutCancel(ctx), some...)
		}
	}
}

// ask sends queries about one namespace to the API server. Errors are not cached, so that the next call
// retries.
func (p *Pods) ask(ctx context.Context, all ...query) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := time.Now() // What happens while it is asked may be missing.
	without, _ := labelled(selection.DoesNotExist).Requirements()
	err := p.pages(ctx, all[0].namespace, covering(all).Add(without...), func(pod *corev1.Pod) bool {
		more := false
		for _, q := range all {
			if len(q.pods) < mostOfOne && q.selector.Matches(labels.Set(pod.Labels)) {
				q.pods = append(q.pods, *pod)
			}
			more = more || len(q.pods) < mostOfOne
		}
		return more
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range all {
		if q.at, q.err = at, err; err != nil {
			delete(p.answers, q.question)
		}
		close(q.done)
	}
}

// covering returns a selector of at least the pods that the queries select: those with one of their
// values of a label that they all require; all pods if there is no such label.
func covering(all []query) labels.Selector {
	if len(all) == 1 {
		return all[0].selector
	}
	values, requiredBy := map[string][]string{}, map[string]int{}
	for i, q := range all {
		requirements, _ := q.selector.Requirements()
		for _, r := range requirements {
			if key := r.Key(); r.Operator() == selection.Equals || r.Operator() == selection.In {
				values[key] = append(values[key], r.ValuesUnsorted()...)
				if requiredBy[key] == i { // By all before: a selector can require a label twice.
					requiredBy[key] = i + 1
				}
			}
		}
	}
	for key, some := range values {
		if r, err := labels.NewRequirement(key, selection.In, some); err == nil && requiredBy[key] == len(all) {
			return labels.NewSelector().Add(*r)
		}
	}
	return labels.Everything()
}

// Survey calls each with every pod of the cluster that lacks the label, stripped by Keep.
// It reads them in pages, so that memory does not grow with their number.
func (p *Pods) Survey(ctx context.Context, each func(*corev1.Pod)) error {
	namespaces := slices.Collect(maps.Keys(p.config.Namespaces))
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		err := p.pages(ctx, namespace, labelled(selection.DoesNotExist), func(pod *corev1.Pod) bool {
			each(pod)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pages lists pods in pages until more returns false.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
func (p *Pods) pages(ctx context.Context, namespace string, selector labels.Selector, more func(*corev1.Pod) bool) error {
	for next := ""; ; {
		var list corev1.PodList
		err := p.live.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(page), client.Continue(next))
		if err != nil {
			return fmt.Errorf("list the pods without a label of the operator: %w", err)
		}
		for i := range list.Items {
			pod := list.Items[i] // A copy, so that one pod that is kept does not keep its page.
			if _, err := p.config.Keep(&pod); err != nil {
				return err
			}
			if !more(&pod) {
				return nil
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// Client is the client of controllers. It also reads the pods of baselines and has a source of their
// events, for baseline.Pods and baseline.Watch.
type Client struct {
	optional.Client
	*Pods
}

var (
	_ baseline.PodSource     = Client{}
	_ baseline.RolloutSource = Client{}
)

// PodsOf returns the pods of a workload, as Pods.PodsOf does. The first call queries those of all
// baselines together, since each member is reconciled after a start.
func (c Client) PodsOf(ctx context.Context, w *baseline.Workload, selector labels.Selector) ([]corev1.Pod, error) {
	c.first.Do(func() { c.queryAll(ctx, c.baselines(ctx)) })
	return c.Pods.PodsOf(ctx, w, selector)
}

// baselines returns the baselines of all members. Those that cannot be read are left out: they are
// queried one by one.
func (c Client) baselines(ctx context.Context) map[crdv1.ObjectRef]*baseline.Workload {
	all := map[crdv1.ObjectRef]*baseline.Workload{}
	for _, kind := range crdv1.MemberKinds() {
		list := kind.NewList()
		_ = c.List(ctx, list, client.UnsafeDisableDeepCopy)
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			m, _ := o.(crdv1.Member)
			if ref, has := m.BaselineRef(); has && all[ref] == nil {
				all[ref], _ = baseline.Read(ctx, c, ref)
			}
			return nil
		})
	}
	return all
}
