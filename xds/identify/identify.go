package identify

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/serve"
)

// Audience is what a sidecar's token must be made for.
const Audience = "routeserver.signadot.svc"

// Config is what an Identifier needs.
type Config struct {
	// Verify returns the identity that a token belongs to, as tokens.Verifier does for
	// Audience. Required.
	Verify func(ctx context.Context, token string) (tokens.Identity, error)
	// Pods and ReplicaSets read from the cluster. Required.
	Pods        corev1.PodsGetter
	ReplicaSets appsv1.ReplicaSetsGetter
}

// askTimeout bounds one question to the API server.
const askTimeout = 4 * time.Second

// Validate returns an error if the Config is not valid.
func (c Config) Validate() error {
	if c.Verify == nil || c.Pods == nil || c.ReplicaSets == nil {
		return errors.New("identify: Verify, Pods and ReplicaSets are all needed")
	}
	return nil
}

// Identifier identifies sidecars. It is safe for concurrent use.
type Identifier struct {
	Config
	pods, replicaSets workloadCache
}

// New returns an Identifier.
func New(c Config) (*Identifier, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Identifier{Config: c, pods: newWorkloadCache(), replicaSets: newWorkloadCache()}, nil
}

// Identify returns the pod that a token belongs to and its baseline. Its errors are gRPC
// statuses: Unauthenticated for an invalid token, PermissionDenied for a pod that has no
// baseline, Unavailable when either could not be checked.
func (i *Identifier) Identify(ctx context.Context, token string) (serve.Peer, error) {
	identity, err := i.Verify(ctx, token)
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return serve.Peer{}, status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		return serve.Peer{}, status.Error(codes.Unavailable, err.Error())
	case identity.PodName == "" || identity.PodUID == "":
		return serve.Peer{}, status.Errorf(codes.PermissionDenied,
			"the token of %s was not made for a pod: mount it as a projected volume", identity)
	}
	workload, err := i.pods.get(types.UID(identity.PodUID), func() (table.Workload, error) { return i.ofPod(ctx, identity) })
	if err != nil {
		return serve.Peer{}, err
	}
	return serve.Peer{Workload: workload, Namespace: identity.Namespace, Pod: identity.PodName, UID: identity.PodUID}, nil
}

// ofPod returns the workload of a pod.
func (i *Identifier) ofPod(ctx context.Context, identity tokens.Identity) (table.Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	pod, err := i.Pods.Pods(identity.Namespace).Get(ctx, identity.PodName, metav1.GetOptions{})
	if err != nil {
		return table.Workload{}, unread("pod "+identity.Namespace+"/"+identity.PodName, err)
	}
	if string(pod.UID) != identity.PodUID {
		return table.Workload{}, status.Errorf(codes.Unauthenticated, "pod %s/%s was re-created, and the token is of its predecessor", pod.Namespace, pod.Name)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || group(owner.APIVersion) != "apps" {
		return table.Workload{}, noBaseline(pod.Namespace, pod.Name)
	}
	return i.replicaSets.get(owner.UID, func() (table.Workload, error) {
		return i.ofReplicaSet(ctx, pod.Namespace, *owner)
	})
}

// ofReplicaSet returns the workload that owns the ReplicaSet ref.
func (i *Identifier) ofReplicaSet(ctx context.Context, namespace string, ref metav1.OwnerReference) (table.Workload, error) {
	set, err := i.ReplicaSets.ReplicaSets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return table.Workload{}, unread("ReplicaSet "+namespace+"/"+ref.Name, err)
	}
	if set.UID != ref.UID {
		return table.Workload{}, status.Errorf(codes.Unauthenticated, "ReplicaSet %s/%s was re-created, and the token is of its predecessor", namespace, ref.Name)
	}
	owner := metav1.GetControllerOf(set)
	if owner == nil {
		return table.Workload{}, noBaseline(namespace, ref.Name)
	}
	w := table.Workload{Namespace: namespace, Name: owner.Name}
	switch {
	case owner.Kind == "Deployment" && group(owner.APIVersion) == "apps":
		w.Kind = "Deployment"
	case owner.Kind == "Rollout" && group(owner.APIVersion) == "argoproj.io":
		w.Kind = "ArgoRollout" // as the routes API calls it
	default:
		return table.Workload{}, noBaseline(namespace, ref.Name)
	}
	return w, nil
}

func group(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

func noBaseline(namespace, name string) error {
	return status.Errorf(codes.PermissionDenied, "%s/%s belongs to no Deployment or Argo Rollout, so nothing is routed for it", namespace, name)
}

// unread returns the gRPC status for an object that could not be read.
func unread(what string, err error) error {
	if apierrors.IsNotFound(err) {
		return status.Errorf(codes.Unauthenticated, "%s was not found", what)
	}
	return status.Errorf(codes.Unavailable, "read %s: %v", what, err)
}

const (
	// keepFor is how long an answer is kept.
	keepFor = 60 * time.Second
	// maxCached bounds the cached workloads.
	maxCached = 16 << 10
)

// workloadCache keeps which workload an object belongs to, by the object's UID, for a
// while. Errors are not kept.
type workloadCache struct{ kept *cache.LRUExpireCache }

func newWorkloadCache() workloadCache { return workloadCache{cache.NewLRUExpireCache(maxCached)} }

// get returns the cached workload of a UID, or calls ask. Two callers can ask at once.
func (a workloadCache) get(uid types.UID, ask func() (table.Workload, error)) (table.Workload, error) {
	if known, ok := a.kept.Get(uid); ok {
		return known.(table.Workload), nil
	}
	workload, err := ask()
	if err != nil {
		return table.Workload{}, err
	}
	a.kept.Add(uid, workload, keepFor)
	return workload, nil
}
