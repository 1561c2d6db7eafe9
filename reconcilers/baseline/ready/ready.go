// Package ready finds the ready pods of a Deployment or a Rollout, without a cache of all pods: for programs that
// need those of few workloads.
package ready

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// Finder finds pods. It is safe for concurrent use. Make one with New.
type Finder struct {
	cluster client.Reader
	found   *cache.LRUExpireCache // by workload
	asking  singleflight.Group
}

// answer are the addresses of a workload's pods.
type answer struct {
	at        time.Time
	addresses []netip.Addr
}

const (
	// freshFor is how long an answer is used, askWithin bounds the requests for one.
	freshFor, askWithin = 2 * time.Second, 5 * time.Second
	// keepFor is how long an answer is remembered for Found, of maxKept workloads: longer than its addresses
	// are dialled.
	keepFor, maxKept = time.Minute, 1024
	// maxPods bounds the pods of one answer.
	maxPods = 64
)

// New returns a Finder that needs the rights to get Deployments and Rollouts, and to list pods.
func New(reach *rest.Config) (*Finder, error) {
	cluster, err := client.New(reach, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return &Finder{cluster: cluster, found: cache.NewLRUExpireCache(maxKept)}, nil
}

// Find returns the addresses of the ready pods of a workload; none: it does not exist or has none. The answer
// can be some seconds old.
func (f *Finder) Find(w crdv1.ObjectRef) ([]netip.Addr, error) {
	if kept, is := f.found.Get(w); is && time.Since(kept.(answer).at) < freshFor {
		return kept.(answer).addresses, nil
	}
	addresses, err, _ := f.asking.Do(w.Kind+"/"+w.Namespace+"/"+w.Name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), askWithin) // of all that wait for it
		defer cancel()
		addresses, err := f.ask(ctx, w)
		if err == nil {
			f.found.Add(w, answer{time.Now(), addresses}, keepFor)
		}
		return addresses, err
	})
	return addresses.([]netip.Addr), err
}

// Found reports whether an address is of those that Find returned last for a workload.
func (f *Finder) Found(w crdv1.ObjectRef, address netip.Addr) bool {
	kept, is := f.found.Get(w)
	return is && slices.Contains(kept.(answer).addresses, address.Unmap())
}

// ask reads the pods of a workload.
func (f *Finder) ask(ctx context.Context, w crdv1.ObjectRef) ([]netip.Addr, error) {
	workload, err := baseline.Read(ctx, f.cluster, w)
	if err != nil || workload == nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(workload.Selector)
	if err != nil || selector.String() == "" { // it would select every pod
		return nil, err
	}
	var list corev1.PodList
	err = f.cluster.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.MatchingFields{"status.phase": string(corev1.PodRunning)}, client.Limit(10*maxPods))
	return ready(list.Items), err
}

// ready returns the addresses of the pods that are ready and do not terminate.
func ready(all []corev1.Pod) (out []netip.Addr) {
	for _, p := range all {
		is := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if a, err := netip.ParseAddr(p.Status.PodIP); err == nil && is && p.DeletionTimestamp == nil && len(out) < maxPods {
			out = append(out, a.Unmap())
		}
	}
	return out
}
