package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/cli"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/apiserver"
)

// cluster reaches the one API server of all tests of the package.
var cluster *rest.Config

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	s, err := apiserver.Start()
	if err != nil {
		slog.Error("cannot start", "error", err)
		return 1
	}
	cluster = s.Config
	code := m.Run()
	if err := s.Stop(); err != nil {
		slog.Error("cannot stop the API server", "error", err)
		return 1
	}
	return code
}

// as writes a kubeconfig for somebody: an administrator who speaks as user, or
// who is nobody with a wrong token.
func as(t *testing.T, user, token string) string {
	t.Helper()
	who := &clientcmdapi.AuthInfo{ClientCertificateData: cluster.CertData, ClientKeyData: cluster.KeyData, Impersonate: user}
	if token != "" {
		who = &clientcmdapi.AuthInfo{Token: token}
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: cluster.Host, CertificateAuthorityData: cluster.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": who},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask runs the program.
func ask(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	config := wired("kubectl switchyard")
	config.In, config.Out, config.Err = strings.NewReader(""), &o, &e
	config.Getenv = func(string) string { return "" }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = cli.Main(ctx, config, args)
	return code, o.String(), e.String()
}

// kubelet is the part of a kubelet that forwards ports, for the API server to
// pass streams on to: every port leads to one address. It gives its own port.
func kubelet(t *testing.T, address string) int32 {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
			return
		}
		streams := make(chan httpstream.Stream, 8)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for {
			select {
			case s := <-streams:
				if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
					go join(s, address)
				} else {
					s.Close() // nothing went wrong
				}
			case <-conn.CloseChan():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return int32(s.Listener.Addr().(*net.TCPAddr).Port)
}

// join carries a stream to an address, and back.
func join(s httpstream.Stream, address string) {
	defer s.Close()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, s)
		conn.Close()
	}()
	_, _ = io.Copy(s, conn)
}

// pod makes a pod of the route server on a node whose kubelet listens on a port,
// and gives its namespace.
func pod(t *testing.T, namespace string, ready bool, port int32) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	ctx, none := t.Context(), metav1.CreateOptions{}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, none)
	must(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	must(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, none)
	must(t, err)
	no := false
	p, err := client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "routeserver-0", Labels: map[string]string{"app": "routeserver"}},
		Spec: corev1.PodSpec{NodeName: namespace, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "main", Image: "routeserver"}}},
	}, none)
	must(t, err)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if ready {
		p.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	_, err = client.CoreV1().Pods(namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scaledToZero makes a namespace with a route server that has no pods, which the
// user narrow-empty may list and whose Deployment that user may not see.
func scaledToZero(t *testing.T, namespace string) {
	t.Helper()
	c, err := client.New(cluster, client.Options{}) // of the kinds that client-go knows
	must(t, err)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	none, app := int32(0), map[string]string{"app": "routeserver"}
	must(t, c.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "routeserver"},
		Spec: appsv1.DeploymentSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "routeserver"}}}}},
	}))
	must(t, c.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}}))
	must(t, c.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "narrow-" + namespace}}}))
}

// sidecars are those that a test says are connected.
type sidecars []api.Sidecar

// Sidecars implements api.Sidecars.
func (s sidecars) Sidecars() []api.Sidecar { return s }

// routes serves a log that says that nothing is routed, and returns the log and the
// address of the route server, to which these sidecars are connected.
func routes(t *testing.T, connected ...api.Sidecar) (event.Mark, string) {
	t.Helper()
	log := memory.New()
	_, err := log.Begin(t.Context(), event.Mark{})
	must(t, err)
	mark, err := log.Append(t.Context(), event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "first"}}, 0)
	must(t, err)
	const free = "127.0.0.1:0"
	m, err := server.New(server.Config{Log: log, GRPCAddress: free, RESTAddress: free, MetricsAddress: free, Sidecars: sidecars(connected)})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if code, _, _ := ask(t, "table", "--server", m.GRPCAddress()); code == cli.ExitOK {
			return mark, m.GRPCAddress()
		}
		if time.Now().After(deadline) {
			t.Fatal("the route server does not answer")
		}
	}
}
