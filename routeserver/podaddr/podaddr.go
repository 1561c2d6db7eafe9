// Package podaddr finds the pod with an address, to identify callers that present no credentials.
//
// The API server is queried, and the result is cached for Config.Keep. Addresses are reused, so for
// that long a pod can be mistaken for the one that had its address before. Of a known pod, only
// that one object is read again. So the expensive query, a search of all pods, runs once for each
// pod that calls, and for an address without a pod every few seconds at most. Searches by anonymous
// callers are limited (search.go), separately from the reads of known pods: a flood of new
// addresses does not block those.
//
// The result is only as trustworthy as the network: see decision record 0037.
package podaddr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/lru"

	"switchyard.dev/eventbus/callers"
)

// Bounds of a Finder.
const (
	// keepPod is how long it is believed which pod has an address.
	keepPod = 10 * time.Second
	// keepNone is how long it is believed that no single pod has an address.
	keepNone = 5 * time.Second
	// within is the timeout of one search, with all its requests to the API server.
	within = 6 * time.Second
	// maxKept bounds the addresses of which answers are kept.
	maxKept = 16 << 10
	// readRate and readBurst bound how many pods are read again in a second.
	readRate, readBurst = 200, 400
	// eachWaiting and maxWaiting bound the calls that wait for an answer, of one stranger and
	// of all.
	eachWaiting, maxWaiting = 256, 2048
)

// ErrUnasked is the error when the pod of an address cannot be determined for now; the caller can
// retry.
var ErrUnasked = errors.New("which pod has the caller's address could not be found out")

// None is the error of an address that no single pod has.
type None struct{ why string }

// Error implements error.
func (n *None) Error() string { return n.why }

// Config is what a Finder needs.
type Config struct {
	// Pods queries the API server. The Finder limits its queries, so the client needs no rate
	// limit.
	Pods client.PodsGetter
	// Keep is how long it is believed which pod has an address. Default: 10 s.
	Keep time.Duration
}

// Finder finds pods by their addresses. It is safe for concurrent use.
type Finder struct {
	cfg    Config
	reads  *rate.Limiter
	search search
	// waiting are the callers that wait for an answer.
	waiting *callers.Pool
	flights singleflight.Group
	// kept are the last answers, by address.
	kept *lru.Cache
}

// answer is the result for an address: a pod, or the reason why there is none.
type answer struct {
	pod   types.NamespacedName
	none  *None
	until time.Time
}

// New returns a Finder. The error names a missing field.
func New(cfg Config) (*Finder, error) {
	switch {
	case cfg.Pods == nil:
		return nil, errors.New("podaddr: Config.Pods is missing")
	case cfg.Keep < 0:
		return nil, errors.New("podaddr: Config.Keep must not be negative")
	case cfg.Keep == 0:
		cfg.Keep = keepPod
	}
	return &Finder{
		cfg: cfg, reads: rate.NewLimiter(readRate, readBurst), search: newSearch(cfg.Pods), kept: lru.New(maxKept),
		waiting: callers.NewPool("calls that wait for their pod to be found", callers.Bounds{Each: eachWaiting, Strangers: maxWaiting}),
	}, nil
}

// Namespace returns the namespace of the pod with an address. The error is a *None when not exactly
// one pod has it; all other errors wrap ErrUnasked.
func (f *Finder) Namespace(ctx context.Context, address netip.Addr) (string, error) {
	address = address.Unmap()
	known, fresh := f.recall(address)
	if fresh {
		return known.namespace()
	}
	if none := unfit(address); none != nil {
		return "", none
	}
	// Callers share the question of their address, and each of them holds memory while it
	// waits.
	leave, err := f.waiting.Enter(callers.At(address.String()))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnasked, err)
	}
	defer leave()
	// A caller that leaves does not cancel a search that others share.
	asked := f.flights.DoChan(address.String(), func() (any, error) {
		// The question before this one may have been answered since we looked.
		if known, fresh := f.recall(address); fresh {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		return f.find(ctx, address, known.pod)
	})
	select {
	case found := <-asked:
		if found.Err != nil {
			return "", fmt.Errorf("%w: %w", ErrUnasked, found.Err)
		}
		return found.Val.(answer).namespace()
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", ErrUnasked, context.Cause(ctx))
	}
}

func (a answer) namespace() (string, error) {
	if a.none != nil {
		return "", a.none
	}
	return a.pod.Namespace, nil
}

// unfit returns the reason why no pod can have an address, or nil.
func unfit(address netip.Addr) *None {
	switch {
	case !address.IsValid():
		return &None{"the connection has no address"}
	case address == netip.AddrFrom4([4]byte{127, 0, 0, 1}), address == netip.IPv6Loopback():
		return &None{fmt.Sprintf("%s is within the route server's own pod (kubectl port-forward ends there)", address)}
	case address.Zone() != "", address.IsUnspecified(), address.IsMulticast():
		return &None{fmt.Sprintf("%s is no address that a pod has", address)}
	}
	return nil
}

// find finds out which pod has an address. before is the one that had it, if any.
func (f *Finder) find(ctx context.Context, address netip.Addr, before types.NamespacedName) (answer, error) {
	if before.Name != "" {
		is, err := f.read(ctx, before)
		if err != nil {
			return answer{}, err
		}
		// The address of one that is being deleted may be another's by now: that takes a search.
		if has(is, address) && is.DeletionTimestamp == nil {
			return f.remember(address, answer{pod: before}, f.cfg.Keep), nil
		}
	}
	leave, err := f.search.questions.Enter(callers.At(address.String()))
	if err != nil {
		return answer{}, err
	}
	defer leave()
	found, err := f.search.at(ctx, address)
	if none := (*None)(nil); errors.As(err, &none) {
		return f.remember(address, answer{none: none}, keepNone), nil
	}
	if err != nil {
		return answer{}, err
	}
	// The search may have been answered from a cache that lags; this is not.
	is, err := f.read(ctx, found)
	switch {
	case err != nil:
		return answer{}, err
	case !has(is, address):
		return answer{}, fmt.Errorf("pod %s had the address %s until just now", found, address)
	}
	return f.remember(address, answer{pod: found}, f.cfg.Keep), nil
}

// read returns a pod from the API server, and nil when it does not exist any more.
func (f *Finder) read(ctx context.Context, p types.NamespacedName) (*corev1.Pod, error) {
	if err := f.reads.Wait(ctx); err != nil {
		return nil, err
	}
	is, err := f.cfg.Pods.Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return is, err
}

// has reports whether a pod is running and has an address. A nil pod, one that was deleted, has
// none.
func has(p *corev1.Pod, address netip.Addr) bool {
	return p != nil && runs(p) && hasAddress(p, address)
}

// runs reports whether a pod has not terminated: a terminated pod has released its address,
// although its status still contains it.
func runs(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func hasAddress(p *corev1.Pod, address netip.Addr) bool {
	is, err := netip.ParseAddr(p.Status.PodIP)
	return err == nil && is.Unmap() == address
}

// recall returns the cached answer for an address, and whether it is still fresh.
func (f *Finder) recall(address netip.Addr) (a answer, fresh bool) {
	known, _ := f.kept.Get(address)
	a, ok := known.(answer)
	return a, ok && time.Now().Before(a.until)
}

// remember caches an answer until it expires. If there are too many, the least recently used one is
// evicted.
func (f *Finder) remember(address netip.Addr, a answer, long time.Duration) answer {
	a.until = time.Now().Add(long)
	f.kept.Add(address, a)
	return a
}
