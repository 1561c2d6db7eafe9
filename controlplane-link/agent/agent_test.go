package agent_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/issuer"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/controlkeys"
)

func TestMain(m *testing.M) { world.Main(m) }

var (
	prod = registry.Cluster{Organisation: "acme", Name: "prod"}
	jo   = &linkv1.Caller{Name: "jo", Roles: []string{"dev"}}
)

// names is the cluster's DNS.
type names struct {
	sync.Mutex
	known map[string]string
}

func (n *names) set(host, address string) {
	n.Lock()
	defer n.Unlock()
	n.known[host] = address
}

// LookupNetIP implements outbound.Resolver.
func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.Lock()
	defer n.Unlock()
	a, err := netip.ParseAddr(n.known[host])
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{a}, nil
}

// site is a cluster with an agent, which has the rights of the table, and a control plane.
type site struct {
	*world.World
	server    *server.Server
	issuer    *issuer.Issuer
	names     *names
	log       *background.Output
	health    string
	operator  string
	namespace string
	backend   netip.Addr // of this machine, and not loopback
	port      uint16     // of a server there that sends its name
}

func newSite(t *testing.T, change ...func(*agent.Settings)) *site {
	t.Helper()
	return siteIn(t, world.Shared(t), change...)
}

func siteIn(t *testing.T, w *world.World, change ...func(*agent.Settings)) *site {
	t.Helper()
	s := &site{World: w, names: &names{known: map[string]string{}}, log: &background.Output{}}
	s.operator, s.namespace = s.NewNamespace("operator"), s.NewNamespace("shop")
	s.listen(t)
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: controlkeys.ConfigMap}})
	authority, dir := trusttest.New(t, "acme"), t.TempDir()
	address := s.serve(t, authority)
	trusttest.File(t, dir, "ca.crt", authority.Bundle())
	trusttest.File(t, dir, "token", []byte("s3cret-token\n"))
	s.health = fmt.Sprintf("127.0.0.1:%d", port.Of(t))
	settings, err := agent.ParseSettings([]string{
		"--control-plane", address, "--ca-file", filepath.Join(dir, "ca.crt"), "--token-file", filepath.Join(dir, "token"), "--journal-dir", t.TempDir(),
		"--health-address", s.health, "--metrics-address", "127.0.0.1:0", "--namespace", s.operator, "--cluster-domain", "cluster.local",
	}, io.Discard)
	s.Must(err)
	settings.Resolver = s.names
	settings.AccountTokenFile = filepath.Join(dir, "account")
	// The API server has the address of this machine, where the test's servers are.
	settings.Refused = slices.DeleteFunc(settings.Refused, func(r cluster.Refused) bool { return r.Name == "kubernetes" })
	for _, c := range change {
		c(&settings)
	}
	user := "agent-" + s.operator
	rules, err := apiserver.AgentRules()
	s.Must(err)
	s.Grant(user, "", slices.Concat(rules["cluster"], rules["namespaces"])...)
	s.Grant(user, s.operator, rules["operator"]...)
	access := s.As(user)
	access.QPS = -1
	main, err := settings.Open(access, s.log, slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.Must(err)
	s.run(t, main.Run)
	t.Cleanup(func() {
		if text := s.log.String(); strings.Contains(text, "s3cret") {
			t.Error("a secret was logged")
		} else if t.Failed() {
			t.Log(text)
		}
	})
	return s
}

// run runs a part until the test ends.
func (s *site) run(t *testing.T, part func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// serve begins the control plane.
func (s *site) serve(t *testing.T, authority *trusttest.Authority) (address string) {
	leaf := authority.Leaf(t, "127.0.0.1")
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	s.Must(err)
	tokens := &registry.MemoryTokens{}
	tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte("s3cret-token")): {ID: "1", Cluster: prod}})
	s.issuer, err = issuer.New(keyOf(1))
	s.Must(err)
	s.server, err = server.New(server.Config{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Registry: &registry.Memory{}, Tokens: tokens, Keys: s.issuer, Replica: "one"})
	s.Must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Must(err)
	s.run(t, func(ctx context.Context) error { return s.server.Serve(ctx, l) })
	return l.Addr().String()
}

// listen begins a server at an address of this machine that is not loopback.
func (s *site) listen(t *testing.T) {
	all, err := net.InterfaceAddrs()
	s.Must(err)
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			s.backend = p.Addr()
		}
	}
	if !s.backend.IsValid() {
		t.Fatal("this machine needs an address that is not loopback")
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(s.backend, 0).String())
	s.Must(err)
	t.Cleanup(func() { _ = l.Close() })
	s.port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "backend")
			_ = c.Close()
		}
	}()
}

// connected waits for the session.
func (s *site) connected() {
	s.Eventually("the session", func() error {
		if len(s.server.Agents()) == 0 {
			return server.ErrNoAgent
		}
		return nil
	})
}

// service is a Service, for a caller.
func service(caller *linkv1.Caller, host string, port uint32) *linkv1.Open {
	return &linkv1.Open{Caller: caller, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: host, Port: port}}}
}

// reach connects to a host through the link.
func (s *site) reach(t *testing.T, caller *linkv1.Caller, host string, port uint16) error {
	t.Helper()
	s.connected()
	c, err := s.server.Open(t.Context(), prod, service(caller, host, uint32(port)))
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err == nil && string(text) != "backend" {
		err = fmt.Errorf("read %q", text)
	}
	return err
}

// refused fails the test unless a destination is refused.
func (s *site) refused(t *testing.T, what string, caller *linkv1.Caller, host string, port uint16) {
	t.Helper()
	var refused *carrier.RefusedError
	if err := s.reach(t, caller, host, port); !errors.As(err, &refused) {
		t.Errorf("%s (%s): %v", what, host, err)
	} else if r := refused.Refused.GetReason(); r != tunnelv1.Reason_REASON_DESTINATION && r != tunnelv1.Reason_REASON_NOT_FOUND && r != tunnelv1.Reason_REASON_INVALID {
		t.Errorf("%s (%s): %v", what, host, refused.Refused)
	}
}

// service creates a headless Service with the backend as its only pod.
func (s *site) service(namespace, name string) {
	s.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}})
	s.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{s.backend.String()}}}})
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, wrong := range []string{"0", "80x", "65536", "-1", "", "80,,81"} {
		if _, err := agent.ParseSettings([]string{"--ports", wrong}, io.Discard); err == nil {
			t.Errorf("--ports %q is accepted", wrong)
		}
	}
	if s, err := agent.ParseSettings([]string{"--ports", "80, 443"}, io.Discard); err != nil || !slices.Equal(s.Ports, []uint32{80, 443}) {
		t.Errorf("%v, %v", s.Ports, err)
	}
	if _, err := agent.ParseSettings([]string{"--ca-file", "x", "--system-ca"}, io.Discard); err == nil {
		t.Error("two kinds of authorities are accepted")
	}
	s, err := agent.ParseSettings([]string{"--control-plane", "link.example.com:443", "--tls=false"}, io.Discard)
	if err == nil {
		s.JournalDir = t.TempDir()
		_, err = s.Open(world.Shared(t).Config, io.Discard, slog.New(slog.DiscardHandler))
	}
	if err == nil || !strings.Contains(err.Error(), "in the clear") {
		t.Errorf("without TLS: %v", err)
	}
}

func TestServicesThroughTheLink(t *testing.T) {
	s := newSite(t, func(s *agent.Settings) { s.SidecarPorts = []uint16{15006} })
	cart := "cart." + s.namespace
	s.refused(t, "a Service that does not exist", jo, cart+".svc", s.port)
	s.service(s.namespace, "cart")
	s.names.set(cart+".svc", s.backend.String())
	s.names.set("www.example.com", s.backend.String())
	s.names.set("other."+s.namespace+".svc", s.backend.String())
	s.Eventually("a Service by name", func() error { return s.reach(t, jo, cart+".svc", s.port) })
	s.Eventually("a pod behind a Service by its address", func() error { return s.reach(t, jo, s.backend.String(), s.port) })
	s.Must(s.reach(t, jo, "::ffff:"+s.backend.String(), s.port))
	s.refused(t, "a port of sidecars", jo, cart+".svc", 15006)
	for what, host := range map[string]string{
		"a name of no Service": "www.example.com", "the name of a Service that does not exist": "other." + s.namespace + ".svc", "loopback": "127.0.0.1", "loopback as IPv6": "::ffff:127.0.0.1", "metadata": "169.254.169.254", "no address": "2130706433",
		"an address of nothing": "10.1.2.3", "short": "cart", "a workload that does not exist": cart + ".deploy",
	} {
		s.refused(t, what, jo, host, s.port)
	}
	s.names.set(cart+".svc", "127.0.0.1")
	s.refused(t, "a name that is answered with loopback", jo, cart+".svc", s.port)
	s.names.set(cart+".svc", "10.1.2.3")
	s.refused(t, "a name that is answered with an address of nothing", jo, cart+".svc", s.port)
	s.refused(t, "a caller with two names in one", &linkv1.Caller{Name: "jo:admin"}, cart+".svc", s.port)
	if text := s.log.String(); !strings.Contains(text, `"user":"switchyard:controlplane:acme:jo"`) || !strings.Contains(text, cart+".svc") {
		t.Error("the connection is not recorded")
	}
	for _, host := range []string{"www.example.com", "169.254.169.254"} { // by its name, and by its address
		s.Eventually("the record of the refusal of "+host, func() error { // it is written after the answer
			if asked := fmt.Sprintf(`"asked":"%s:%d"`, host, s.port); !strings.Contains(s.log.String(), asked) {
				return errors.New("there is none")
			}
			return nil
		})
	}
}

func TestPodsOfAWorkloadThroughTheLink(t *testing.T) {
	s := siteIn(t, world.New(t)) // its own, because of the node
	labels := map[string]string{"app": "cart"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	for _, namespace := range []string{s.namespace, s.operator} {
		s.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}})
		s.RunPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart-0", Labels: labels}, Spec: template.Spec},
			corev1.PodStatus{Phase: corev1.PodRunning, PodIP: s.backend.String(), PodIPs: []corev1.PodIP{{IP: s.backend.String()}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	}
	s.Eventually("a pod of a Deployment", func() error { return s.reach(t, jo, "cart."+s.namespace+".deploy", s.port) })
	s.refused(t, "a pod of a Rollout that does not exist", jo, "cart."+s.namespace+".rollout", s.port)
	s.refused(t, "a pod of the operator's namespace", &linkv1.Caller{}, "cart."+s.operator+".deploy", s.port)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	s.Create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.backend.String()}}
	_, err := s.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	s.Must(err)
	s.Eventually("the refusal of a pod with the address of its node", func() error {
		if err := s.reach(t, jo, "cart."+s.namespace+".deploy", s.port); err == nil || !strings.Contains(err.Error(), "node") {
			return errors.Join(errors.New("it is another one"), err)
		}
		return nil
	})
}

// TestServicesOfTheOperator has a Service of the operator that a holder of an API key can reach, and
// one that no caller can, at the same address.
func TestServicesOfTheOperator(t *testing.T) {
	s := newSite(t)
	s.service(s.operator, "tunnel-proxy")
	s.service(s.namespace, "cart")
	key := &linkv1.Caller{Name: "jo", ApiKey: true}
	proxy := "tunnel-proxy." + s.operator + ".svc"
	s.names.set(proxy, s.backend.String())
	s.names.set("cart."+s.namespace, s.backend.String())
	s.Eventually("the proxy by its name", func() error {
		// No server listens on this port: it is dialled, and does not answer.
		if err := s.reach(t, key, proxy, 7777); err == nil || !strings.Contains(err.Error(), "did not answer") {
			return errors.Join(errors.New("it is another one"), err)
		}
		return nil
	})
	s.refused(t, "without a key", jo, proxy, 7777)
	s.refused(t, "another port", key, proxy, s.port)
	s.refused(t, "by its address", key, s.backend.String(), s.port)
	s.refused(t, "through another Service with its address", key, "cart."+s.namespace, s.port)
}

// TestOtherServicesInTheOperatorsNamespace has a Service there that is not of the operator.
func TestOtherServicesInTheOperatorsNamespace(t *testing.T) {
	s := newSite(t)
	s.service(s.operator, "dashboard")
	s.service(s.namespace, "cart")
	s.names.set("cart."+s.namespace, s.backend.String())
	s.Eventually("the refusal of its pod, which is one of another Service too", func() error {
		if err := s.reach(t, jo, "cart."+s.namespace, s.port); err == nil || !strings.Contains(err.Error(), "operator's namespace") {
			return errors.Join(errors.New("it is another one"), err)
		}
		return nil
	})
	s.refused(t, "its pod by its address", &linkv1.Caller{}, s.backend.String(), s.port)
}

// call sends a request to the Kubernetes API through the link.
func (s *site) call(t *testing.T, caller *linkv1.Caller, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://kubernetes"+path, strings.NewReader(body))
	s.Must(err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	s.connected()
	transport := s.server.Transport(prod, caller)
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	s.Must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	s.Must(err)
	return answer.StatusCode, string(text)
}

const sandboxes = "/apis/signadot.com/v1/signadotsandboxes"

func sandbox(name, author string) string {
	annotations := ""
	if author != "" {
		annotations = fmt.Sprintf(`, "annotations": {"switchyard.dev/author": %q, "a": "b"}`, author)
	}
	return fmt.Sprintf(`{"apiVersion": "signadot.com/v1", "kind": "SignadotSandbox", "metadata": {"name": %q%s}, "spec": {"id": %q}}`, name, annotations, name)
}

func TestTheKubernetesAPIThroughTheLink(t *testing.T) {
	s := newSite(t)
	name := s.namespace
	for _, user := range []string{"jo", "bob"} {
		s.Grant("switchyard:controlplane:acme:"+user, "", rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"*"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "secrets", "nodes", "pods/exec"}, Verbs: []string{"*"}})
	}
	if code, text := s.call(t, jo, "GET", "/api/v1/namespaces/"+s.namespace, ""); code != http.StatusOK || !strings.Contains(text, s.namespace) {
		t.Errorf("a read: %d, %s", code, text)
	}
	if code, text := s.call(t, jo, "POST", sandboxes, sandbox(name, `{"user": "admin"}`)); code != http.StatusCreated {
		t.Fatalf("a write: %d, %s", code, text)
	}
	o := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Get(o)
	author, _, err := crdv1.AuthorOf(o.Annotations)
	if err != nil || author.User != "switchyard:controlplane:acme:jo" || !slices.Equal(author.Groups, []string{"switchyard:controlplane:acme", "switchyard:controlplane:acme:dev"}) || o.Annotations["a"] != "b" {
		t.Errorf("the author is %+v, %v", author, err)
	}
	bob := &linkv1.Caller{Name: "bob"}
	apply := "apiVersion: signadot.com/v1\nkind: SignadotSandbox\nmetadata: {name: " + name + "}\nspec: {id: " + name + ", sdRevision: 2}\n"
	if code, text := s.call(t, bob, "PATCH", sandboxes+"/"+name+"?fieldManager=x&force=true", apply, "Content-Type", "application/apply-patch+yaml"); code != http.StatusOK {
		t.Errorf("an apply: %d, %s", code, text)
	}
	s.Get(o)
	if author, _, _ := crdv1.AuthorOf(o.Annotations); author.User != "switchyard:controlplane:acme:bob" {
		t.Errorf("the author is %+v", author)
	}
	if code, text := s.call(t, jo, "PATCH", sandboxes+"/"+name, `{"metadata": {"labels": {"a": "b"}}}`, "Content-Type", "application/merge-patch+json"); code != http.StatusOK {
		t.Errorf("a patch of labels: %d, %s", code, text)
	}
	s.Get(o)
	if author, _, _ := crdv1.AuthorOf(o.Annotations); author.User != "switchyard:controlplane:acme:bob" || o.Labels["a"] != "b" {
		t.Errorf("after a patch of labels the author is %+v", author)
	}
	for what, c := range map[string]struct {
		method, path, body, form string
		code                     int
	}{
		"a JSON patch":   {"PATCH", sandboxes + "/" + name, `[{"op": "remove", "path": "/spec"}]`, "application/json-patch+json", http.StatusBadRequest},
		"two objects":    {"POST", sandboxes, sandbox("a", "") + sandbox("b", ""), "application/json", http.StatusBadRequest},
		"a Secret":       {"GET", "/api/v1/namespaces/kube-system/secrets", "", "application/json", http.StatusForbidden},
		"nodes":          {"GET", "/api/v1/nodes", "", "application/json", http.StatusForbidden},
		"exec":           {"POST", "/api/v1/namespaces/x/pods/y/exec?command=id", "", "application/json", http.StatusForbidden},
		"a path":         {"GET", "/api/v1/namespaces/../secrets", "", "application/json", http.StatusBadRequest},
		"an encoded one": {"GET", "/api/v1/namespaces%2fx", "", "application/json", http.StatusBadRequest},
	} {
		if code, text := s.call(t, jo, c.method, c.path, c.body, "Content-Type", c.form); code != c.code || !strings.Contains(text, `"kind":"Status"`) {
			t.Errorf("%s: %d, %s", what, code, text)
		}
	}
	if code, _ := s.call(t, jo, "DELETE", sandboxes+"/"+name, ""); code != http.StatusOK {
		t.Errorf("a deletion: %d", code)
	}
	for _, record := range []string{
		`"verb":"create","object":"signadot.com/signadotsandboxes","status":201`, `"verb":"delete","object":"signadot.com/signadotsandboxes/` + name + `","status":200`,
		`"user":"switchyard:controlplane:acme:bob","verb":"patch"`,
	} {
		if !strings.Contains(s.log.String(), record) {
			t.Errorf("%q is not recorded", record)
		}
	}
}

// TestHeadersAreNotForwarded sends each header that could change the user of a request, with a canary
// that must not be logged, also in the body of a write. The API server would refuse them.
func TestHeadersAreNotForwarded(t *testing.T) {
	s := newSite(t)
	s.Grant("switchyard:controlplane:acme:jo", "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list"}})
	for _, key := range []string{"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-X", "Authorization", "X-Remote-User", "X-Forwarded-For", "Cookie", "Signadot-Api-Key", "Sd-Explain", "Baggage"} {
		if code, text := s.call(t, jo, "GET", "/api/v1/namespaces", "", key, "Bearer s3cret-canary", "Connection", "Accept, Keep-Alive"); code != http.StatusOK || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %d, %s", key, code, text)
		}
	}
	if code, _ := s.call(t, jo, "GET", "/api/v1/namespaces", "", "Connection", "Upgrade", "Upgrade", "SPDY/3.1"); code != http.StatusForbidden {
		t.Errorf("an upgrade: %d", code)
	}
	_, _ = s.call(t, jo, "POST", sandboxes, sandbox("s3cret-canary", "s3cret-canary")[1:])
}

// TestUnknownObjectsAreReportedAndKept has a sandbox of the control plane and one of another origin.
func TestUnknownObjectsAreReportedAndKept(t *testing.T) {
	w := world.New(t) // its own, since all sandboxes are listed
	known := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "of-the-control-plane", Annotations: map[string]string{crdv1.AnnotationGeneration: "1"}}}
	other := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	w.Create(known, other)
	metrics := fmt.Sprintf("127.0.0.1:%d", port.Of(t))
	s := siteIn(t, w, func(s *agent.Settings) { s.MetricsAddress = metrics })
	s.Eventually("the report", func() error {
		answer, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		for _, line := range []string{`switchyard_agent_unknown_objects{resource="signadotsandboxes"} 1`, `switchyard_agent_unknown_objects{resource="signadotroutegroups"} 0`, `switchyard_agent_unknown_objects{resource="jobs"} 0`, `switchyard_agent_unknown_objects{resource="jobrunnergroups"} 0`} {
			if err == nil && !strings.Contains(string(text), line) {
				err = fmt.Errorf("the metrics lack %s", line)
			}
		}
		return err
	})
	for _, path := range []string{"/healthz", "/readyz"} { // they are at the address of health alone
		answer, err := http.Get("http://" + metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s beside the metrics: %s", path, answer.Status)
		}
	}
	if text := s.log.String(); !strings.Contains(text, "resource=signadotsandboxes count=1 names=[by-hand]") || strings.Contains(text, known.Name) {
		t.Error("the log does not have the object, or it has another one")
	}
	s.Get(other)
	s.Get(known)
}

func TestHealth(t *testing.T) {
	var file string
	s := newSite(t, func(s *agent.Settings) { file, s.TokenFile = s.TokenFile, s.TokenFile+".none" })
	is := func(path string, code int, part string) {
		t.Helper()
		s.Eventually(path+" "+part, func() error {
			answer, err := http.Get("http://" + s.health + path)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != code || !strings.Contains(string(text), part) {
				return fmt.Errorf("%d, %s", answer.StatusCode, text)
			}
			return nil
		})
	}
	is("/nullz", http.StatusOK, "ok")
	is("/healthz", http.StatusOK, "there is no cluster token")
	s.Must(os.Rename(file, file+".none"))
	is("/healthz", http.StatusOK, "Connected to the control plane")
	s.connected()
}
