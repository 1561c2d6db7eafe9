package pods_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/baseline/pods"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// cluster counts the requests for pods without the label.
type cluster struct {
	*world.World
	client pods.Client

	broken atomic.Bool // such requests fail
	mu     sync.Mutex
	lists  map[string][]string // selectors, by namespace
}

func start(t *testing.T) *cluster {
	c := &cluster{World: world.Shared(t), lists: map[string][]string{}}
	access := c.As("")
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
			namespace, of := strings.CutPrefix(strings.TrimSuffix(q.URL.Path, "/pods"), "/api/v1/namespaces/")
			if of && q.URL.Query().Get("limit") != "" {
				c.mu.Lock()
				c.lists[namespace] = append(c.lists[namespace], q.URL.Query().Get("labelSelector"))
				c.mu.Unlock()
				if c.broken.Load() {
					return nil, errors.New("the connection broke")
				}
			}
			return next.RoundTrip(q)
		})
	})
	p, err := pods.New(pods.Config{REST: access, Keep: func(o any) (any, error) { return o, nil }})
	c.Must(err)
	kinds, err := optional.New(optional.Config{REST: c.As("")})
	c.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Start(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	if !p.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the pods are not cached")
	}
	c.client = pods.Client{Client: optional.Client{Client: c.Client, Kinds: kinds}, Pods: p}
	return c
}

// workload makes a Deployment with a pod, and a member that names it.
func (c *cluster) workload(namespace, name string, labels map[string]string) *appsv1.Deployment {
	c.Helper()
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-pod", Labels: labels}, Spec: template.Spec}
	m := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: crdv1.VirtualWorkloadSpec{Name: name, Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name}}}
	c.Create(d, pod, m)
	return d
}

// podOf checks that the pods of a workload are its own one.
func (c *cluster) podOf(d *appsv1.Deployment) {
	c.Helper()
	own, others, err := baseline.Pods(c.Context(), c.client, baseline.OfDeployment(d))
	c.Must(err)
	if all := slices.Concat(own, others); len(all) != 1 || all[0].Name != d.Name+"-pod" {
		c.Errorf("the pods of %s are %d: %+v", d.Name, len(all), all)
	}
}

// TestTheFirstQueryAnswersForAllBaselines starts with members of workloads in three namespaces: with
// one label, with several, and with no label that all require.
func TestTheFirstQueryAnswersForAllBaselines(t *testing.T) {
	c := start(t)
	one, several, none := c.NewNamespace("one"), c.NewNamespace("several"), c.NewNamespace("none")
	var all []*appsv1.Deployment
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, c.workload(one, name, map[string]string{"app": name}),
			c.workload(several, name, map[string]string{"app": "shop", "tier": name}),
			c.workload(none, name, map[string]string{name: "yes"}))
	}
	c.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: one, Name: "unrelated", Labels: map[string]string{"app": "d"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}})
	var running sync.WaitGroup
	for _, d := range all {
		running.Go(func() { c.podOf(d) })
	}
	running.Wait()
	lacks := "!" + crdv1.LabelInjected
	if got := c.lists[one]; len(got) != 1 || got[0] != "app in (a,b,c),"+lacks && got[0] != lacks+",app in (a,b,c)" {
		t.Errorf("pods were listed with %q", got)
	}
	if got := c.lists[none]; len(got) != 1 || got[0] != lacks {
		t.Errorf("where no label is common, pods were listed with %q", got)
	}
	if got := c.lists[several]; len(got) != 1 {
		t.Errorf("where several labels are required, pods were listed with %q", got)
	}

	world.Edit(c.World, all[0], func(d *appsv1.Deployment) { d.Annotations = map[string]string{"changed": "yes"} })
	c.podOf(all[0])
	c.podOf(all[3])
	if got := c.lists[one]; len(got) != 2 || !strings.Contains(got[1], "app=a") {
		t.Errorf("after one has changed, pods were listed with %q", got)
	}
}

// TestASharedQueryCanFail breaks the connection of the first query: its answer is an error for all, and
// each is queried again.
func TestASharedQueryCanFail(t *testing.T) {
	c := start(t)
	ns := c.NewNamespace("fails")
	var all []*appsv1.Deployment
	for i := range 3 {
		all = append(all, c.workload(ns, fmt.Sprintf("w%d", i), map[string]string{"app": fmt.Sprintf("w%d", i)}))
	}
	c.broken.Store(true)
	if _, _, err := baseline.Pods(c.Context(), c.client, baseline.OfDeployment(all[0])); err == nil {
		t.Error("a query that failed has an answer")
	}
	c.broken.Store(false)
	failed := len(c.lists[ns])
	for _, d := range all {
		c.podOf(d)
	}
	if n := len(c.lists[ns]) - failed; n != len(all) {
		t.Errorf("after a failure pods of %d workloads were listed %d times", len(all), n)
	}
}
