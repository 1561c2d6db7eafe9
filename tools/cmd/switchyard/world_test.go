package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

func TestMain(m *testing.M) {
	switch process.Role() {
	case roleSwitchyard:
		os.Exit(run(append([]string{"switchyard"}, strings.Fields(os.Getenv(argumentsOf))...)))
	case roleFar:
		fmt.Fprintln(os.Stderr, farSideAlone(os.Getenv(folderOf)))
		os.Exit(1)
	}
	world.Main(m)
}

// as writes a kubeconfig for somebody: an administrator who speaks as user, or
// who is nobody with a wrong token.
func as(t *testing.T, user, token string) string {
	t.Helper()
	cluster := world.Shared(t).Config
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
func ask(t *testing.T, args ...string) (code exit.Code, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	config := command.Config{Name: "kubectl switchyard"}
	config.In, config.Out, config.Err = strings.NewReader(""), &o, &e
	config.Getenv = func(string) string { return "" }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = switchyard.Main(ctx, config, args)
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
	w := world.Shared(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	w.Create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	w.Must(w.Client.Status().Update(t.Context(), node))
	w.Namespaces(namespace)
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	w.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "routeserver-0", Labels: map[string]string{"app": "routeserver"}},
		Spec: corev1.PodSpec{NodeName: namespace, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "main", Image: "routeserver"}}},
	}, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}})
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
	w := world.Shared(t)
	w.Namespaces(namespace)
	w.Make(&appsv1.Deployment{}, `
metadata: {name: routeserver, namespace: `+namespace+`}
spec:
  replicas: 0
  selector: {matchLabels: {app: routeserver}}
  template: {metadata: {labels: {app: routeserver}}, spec: {containers: [{name: main, image: routeserver}]}}`)
	w.Grant("narrow-"+namespace, namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
}

// sidecars are those that a test says are connected.
type pods []receipts.Sidecar

// Sidecars implements receipts.Sidecars.
func (s pods) Sidecars() []receipts.Sidecar { return s }

// routes serves a log that says that nothing is routed, and returns the log and the
// address of the route server, to which these sidecars are connected.
func serving(t *testing.T, connected ...receipts.Sidecar) (event.Mark, string) {
	t.Helper()
	log := memory.New()
	served.Begin(t, log)
	mark, err := log.Append(t.Context(), event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "first"}}, 0)
	must(t, err)
	m, _ := served.Run(t, server.Config{Log: log, Sidecars: pods(connected)})
	wait.Holds(t, "the route server answers", func() bool {
		code, _, _ := ask(t, "table", "--server", m.GRPCAddress())
		return code == exit.OK
	})
	return mark, m.GRPCAddress()
}
