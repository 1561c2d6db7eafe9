package replay

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Target is where the requests of a fork are sent.
type Target struct {
	// Address is that of the baseline's Service, host:port; requests with Key are routed from there to the fork.
	Address, Key string
	// BaselineNames and ForkNames are the names and addresses of the pods of both sides, which are no differences. They are empty
	// where the pods cannot be read.
	BaselineNames, ForkNames []string
}

// Find returns the target of requests to a port of a fork, KIND/NAMESPACE/NAME. The error names a fork that does not exist or is
// not ready.
func Find(ctx context.Context, c client.Reader, workload string, port uint32) (Target, error) {
	parts := strings.Split(workload, "/")
	if len(parts) != 3 || parts[0] != crdv1.KindForkedWorkload {
		return Target{}, fmt.Errorf("%s is no fork", workload)
	}
	w := &crdv1.ForkedWorkload{}
	err := c.Get(ctx, client.ObjectKey{Namespace: parts[1], Name: parts[2]}, w)
	switch {
	case apierrors.IsNotFound(err):
		return Target{}, fmt.Errorf("the fork %s/%s does not exist: create its sandbox, or record the requests of an existing one", parts[1], parts[2])
	case err != nil:
		return Target{}, fmt.Errorf("read ForkedWorkload %s/%s: %w", parts[1], parts[2], err)
	case !crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionReady, w.Generation) || w.Status.RoutingConfig == nil:
		return Target{}, fmt.Errorf("the fork %s/%s is not ready: kubectl describe forkedworkload -n %[1]s %[2]s shows the reason", w.Namespace, w.Name)
	}
	for _, s := range w.Status.RoutingConfig.Services {
		for _, p := range s.Ports {
			if uint32(p.TargetPort) == port && s.To != "" { //nolint:gosec // a port
				return Target{
					Address: net.JoinHostPort(s.From+"."+w.Namespace+".svc", strconv.Itoa(int(p.Port))), Key: w.Annotations[crdv1.AnnotationRoutingKey],
					BaselineNames: podNames(ctx, c, w.Namespace, s.From), ForkNames: podNames(ctx, c, w.Namespace, s.To),
				}, nil
			}
		}
	}
	return Target{}, fmt.Errorf("no Service of the baseline sends requests to port %d of the fork %s/%s", port, w.Namespace, w.Name)
}

// podNames returns the names and addresses of the pods of a Service; none where they cannot be read.
func podNames(ctx context.Context, c client.Reader, namespace, service string) (names []string) {
	s, pods := &corev1.Service{}, &corev1.PodList{}
	if c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, s) != nil || len(s.Spec.Selector) == 0 ||
		c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(s.Spec.Selector)}) != nil {
		return nil
	}
	for _, p := range pods.Items {
		names = append(names, p.Name, p.Status.PodIP)
	}
	return names
}
