package chart

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/world"
)

// patience is how long the API server may take over something it does in its
// own time, on a machine that is busy with other tests.
const patience = 2 * time.Minute

// apiServer is a real API server with its etcd, for one test.
type apiServer struct {
	client.Client
	config     *rest.Config
	kubeconfig string
	warnings   *warnings
}

// warnings keeps what the API server warned of.
type warnings struct {
	sync.Mutex
	texts []string
}

// HandleWarningHeader takes one warning.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.Lock()
	defer w.Unlock()
	if !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

// startAPIServer starts an API server that has our namespace, in which only
// restricted pods are accepted, and the namespaces asked for.
func startAPIServer(t *testing.T, namespaces ...string) apiServer {
	t.Helper()
	w := world.Bare(t)
	seen := &warnings{}
	w.Config.WarningHandler = seen
	c, err := client.New(w.Config, client.Options{})
	w.Must(err)
	w.Namespaces(namespaces...)
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
		"pod-security.kubernetes.io/warn":    "restricted",
	}}})
	s := apiServer{c, w.Config, w.Kubeconfig, seen}
	s.deletesNamespaces(t)
	return s
}

// helm runs helm against the API server.
func (s apiServer) helm(t *testing.T, values string, args ...string) string {
	t.Helper()
	out, err := helm(t, values, append(args, "--kubeconfig="+s.kubeconfig, "--namespace="+namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies an object as kubectl apply --server-side would, refusing unknown
// fields.
func (s apiServer) apply(ctx context.Context, o *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner("chart-test"), client.ForceOwnership)
	return s.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), options...)
}
