package api

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// GetResourceOutputs implements tunnelv1.TunnelAPIServer.
func (s *server) GetResourceOutputs(ctx context.Context, request *tunnelv1.GetResourceOutputsRequest) (*tunnelv1.GetResourceOutputsResponse, error) {
	c, leave, err := s.admit(ctx, s.requests)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.ofCluster(c, "use a kubeconfig, with the right to get the Secrets of the outputs"); err != nil {
		return nil, err
	}
	sandbox, err := s.sandboxWith(ctx, c, request.GetRoutingKey())
	if err != nil {
		return nil, err
	}
	var resources crdv1.ResourceList
	if err := s.cache.List(ctx, &resources, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Error(codes.Unavailable, "the caches of cluster objects have not synced yet: try again")
	}
	// With the caller's token: the caller needs its own right to read the Secrets.
	as := rest.AnonymousClientConfig(s.cfg.REST)
	as.BearerToken, as.QPS = c.token, -1
	kube, err := kubernetes.NewForConfig(as)
	if err != nil {
		return nil, status.Error(codes.Internal, "the API server cannot be reached as the caller")
	}
	out := &tunnelv1.GetResourceOutputsResponse{}
	for i := range resources.Items {
		r := &resources.Items[i]
		if sandboxOf(r) != (owner{sandbox.Name, sandbox.UID}) {
			continue
		}
		secret, err := outputsOf(ctx, kube, r)
		if err != nil {
			return nil, err
		}
		told := &tunnelv1.ResourceOutputs{ResourceName: r.Spec.Name}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			told.Outputs = append(told.Outputs, &tunnelv1.ResourceOutput{OutputKey: key, OutputValue: secret.Data[key]})
		}
		out.Resources = append(out.Resources, told)
	}
	s.cfg.Logger.Info("outputs of resources were read", "user", c.user.Name, "sandbox", sandbox.Name, "resources", len(out.Resources))
	return out, nil
}

// outputsOf reads the Secret with the outputs of a resource, in the first of its namespaces that
// the caller may read it in.
func outputsOf(ctx context.Context, kube kubernetes.Interface, r *crdv1.Resource) (*corev1.Secret, error) {
	if len(r.Spec.OutputNamespaces) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "the outputs of resource %s are written to no namespace: no member of the sandbox is in one", r.Spec.Name)
	}
	var why error
	for _, namespace := range r.Spec.OutputNamespaces {
		secret, err := kube.CoreV1().Secrets(namespace).Get(ctx, r.OutputsSecret(), metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(secret, r) {
			err = apierrors.NewNotFound(corev1.Resource("secrets"), r.OutputsSecret())
		}
		switch {
		case err == nil:
			return secret, nil
		case apierrors.IsUnauthorized(err):
			return nil, status.Error(codes.Unauthenticated, "outputs are read with your own token, which the API server does not take: show one that is for the API server")
		case apierrors.IsForbidden(err):
			why = status.Errorf(codes.PermissionDenied, "you may not read Secret %s/%s, which has the outputs of resource %s: ask for the right to get it", namespace, r.OutputsSecret(), r.Spec.Name)
		case apierrors.IsNotFound(err):
			why = status.Error(codes.FailedPrecondition, fmt.Sprintf("the outputs of resource %s do not exist yet: wait until it is ready", r.Spec.Name))
		default:
			return nil, status.Error(codes.Unavailable, "the API server could not be asked: try again")
		}
	}
	return nil, why
}
