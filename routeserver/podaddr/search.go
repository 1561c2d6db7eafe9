package podaddr

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
)

// Limits of searches. For each, the API server reads every pod in its cache.
const (
	// atOnce is how many the API server is given at once.
	atOnce = 2
	// searchRate and searchBurst limit searches per second. The burst covers the start of a route
	// server, when all clients call at once.
	searchRate, searchBurst = 20, 400
	// eachQuestions, eachRate and eachBurst bound the questions of one stranger, so that with
	// three looks for each he leaves something to others. All pods of a node may be one: of
	// an IPv6 address the first 64 bits count.
	eachQuestions, eachRate, eachBurst = 32, 5, 128
	maxQuestions                       = 512
	// looks is the number of attempts to find a pod, and pause the time between them: a pod can
	// call before the API server knows its address.
	looks, pause = 3, time.Second
)

// search finds pods by their addresses.
type search struct {
	// questions are those that are under way, in the name of strangers.
	questions *callers.Pool
	rate      *rate.Limiter
	asking    chan struct{}
	pods      client.PodsGetter
}

func newSearch(pods client.PodsGetter) search {
	return search{
		questions: callers.NewPool("questions which pod has an address", callers.Bounds{
			Each: eachQuestions, Strangers: maxQuestions, Rate: eachRate, Burst: eachBurst,
		}),
		rate:   rate.NewLimiter(searchRate, searchBurst),
		asking: make(chan struct{}, atOnce),
		pods:   pods,
	}
}

// at returns the one pod that runs at an address. The error is a *None when there is no
// such pod, or when there are several.
func (s search) at(ctx context.Context, address netip.Addr) (types.NamespacedName, error) {
	for n := 1; ; n++ {
		all, err := s.list(ctx, address)
		if err != nil {
			return types.NamespacedName{}, err
		}
		if len(all) > 0 {
			return only(all, address)
		}
		if n == looks {
			return types.NamespacedName{}, &None{fmt.Sprintf("no running pod has the address %s: the caller is in the network of a node or outside the cluster, or its address was translated on the way", address)}
		}
		if !wake.Sleep(ctx, pause) {
			return types.NamespacedName{}, context.Cause(ctx)
		}
	}
}

// only returns the pod that alone has an address.
func only(all []corev1.Pod, address netip.Addr) (types.NamespacedName, error) {
	for _, p := range all {
		if p.Spec.HostNetwork || p.Status.HostIP == p.Status.PodIP {
			return types.NamespacedName{}, &None{fmt.Sprintf("%s is the address of a node, shared by all its hostNetwork pods and by connections that the node translates", address)}
		}
	}
	if len(all) > 1 {
		return types.NamespacedName{}, &None{fmt.Sprintf("several running pods have the address %s", address)}
	}
	return types.NamespacedName{Namespace: all[0].Namespace, Name: all[0].Name}, nil
}

// list returns the pods that run at an address, as the API server has them in memory.
func (s search) list(ctx context.Context, address netip.Addr) ([]corev1.Pod, error) {
	if err := s.rate.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	found, err := s.pods.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector("status.podIP", address.String()),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		).String(),
		ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
