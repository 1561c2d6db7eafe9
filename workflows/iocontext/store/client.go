package store

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Open returns a Store in a namespace. Its client knows only Secrets and
// SignadotObjectLifecycleMethods, and sends the API server no discovery requests.
func Open(access *rest.Config, namespace string) (Store, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return Store{}, err
	}
	if err := crdv1.AddToScheme(scheme); err != nil {
		return Store{}, err
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, crdv1.GroupVersion()})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	methods := crdv1.GroupVersion().WithResource("signadotobjectlifecyclemethods")
	mapper.AddSpecific(crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods), methods, methods, meta.RESTScopeRoot)
	c, err := client.New(access, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return Store{}, fmt.Errorf("reach the cluster: %w", err)
	}
	return Store{Client: c, Namespace: namespace}, nil
}
