package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/agent"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tests/world"
)

// requests are those that the agent has sent to the API server, as they were sent.
type requests struct {
	mu  sync.Mutex
	all []*http.Request
}

// of returns the requests with a method and a path.
func (r *requests) of(method, path string) (of []*http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.Method == method && one.URL.Path == path {
			of = append(of, one)
		}
	}
	return of
}

// recordedSite is newSite with a record of the requests that the agent sends to the API server.
func recordedSite(t *testing.T) (*site, *requests) {
	t.Helper()
	seen := &requests{}
	w := *world.Shared(t)
	server := *w.Server
	server.Config = rest.CopyConfig(server.Config)
	server.Config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			seen.mu.Lock()
			seen.all = append(seen.all, r.Clone(context.Background()))
			seen.mu.Unlock()
			return rt.RoundTrip(r)
		})
	})
	w.Server = &server
	return siteIn(t, &w), seen
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoSubresourceIsReached has a user and an agent with all rights in the cluster: the allow-list refuses each
// request, and the API server does not receive it.
func TestNoSubresourceIsReached(t *testing.T) {
	s, seen := recordedSite(t)
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}
	ann := &linkv1.Caller{Name: "ann"} // the cluster is shared with other tests
	s.Grant("switchyard:controlplane:acme:ann", "", everything...)
	s.Grant("agent-"+s.operator, "", everything...)
	pods := "/api/v1/namespaces/" + s.namespace + "/pods"
	s.Eventually("the rights count", func() error {
		if code, text := s.call(t, ann, "GET", pods, ""); code != http.StatusOK {
			return fmt.Errorf("%d, %s", code, text)
		}
		return nil
	})
	if len(seen.of("GET", pods)) == 0 {
		t.Fatal("the record of requests is empty")
	}
	in := "/api/v1/namespaces/" + s.namespace
	for _, request := range []string{
		"GET /api/v1/secrets", "GET " + in + "/secrets", "GET " + in + "/secrets/x", "POST " + in + "/secrets", "DELETE " + in + "/secrets/x",
		"GET " + pods + "/x/proxy", "GET " + pods + "/x/proxy/a", "POST " + pods + "/x/proxy/a", "GET " + in + "/services/x/proxy/a", "PUT " + in + "/services/x:80/proxy/a",
		"GET " + pods + "/x/exec", "POST " + pods + "/x/exec", "GET " + pods + "/x/attach", "POST " + pods + "/x/attach", "GET " + pods + "/x/portforward", "POST " + pods + "/x/portforward",
		"GET " + pods + "/x/ephemeralcontainers", "PUT " + pods + "/x/ephemeralcontainers", "PATCH " + pods + "/x/ephemeralcontainers",
		"GET /api/v1/nodes", "GET /api/v1/nodes/x", "GET /api/v1/nodes/x/proxy/pods", "GET /api/v1/nodes/x/status", "PATCH /api/v1/nodes/x", "GET /api/v1/nodes/x/metrics",
		"POST " + in + "/serviceaccounts/default/token", "GET " + in + "/serviceaccounts/default",
		"POST " + pods + "/x/eviction", "POST " + pods + "/x/binding", "PATCH " + pods + "/x/resize", "GET " + pods + "/x/log", "PUT " + pods + "/x/status",
		"GET /apis/apps/v1/namespaces/" + s.namespace + "/deployments/x/scale", "PATCH /apis/apps/v1/namespaces/" + s.namespace + "/deployments/x",
		"POST " + in + "/pods", "DELETE " + in, "PUT " + sandboxes + "/x/status", "DELETE " + sandboxes,
		"POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "POST /apis/authentication.k8s.io/v1/tokenreviews", "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
		"PUT /api/v1/namespaces/" + s.operator + "/configmaps/controlplane-keys", "GET /api/v1/namespaces/" + s.operator + "/configmaps/other", "GET /metrics", "GET /logs/x",
	} {
		method, path, _ := strings.Cut(request, " ")
		before := len(seen.of(method, path))
		for _, caller := range []*linkv1.Caller{ann, {}} {
			if code, text := s.call(t, caller, method, path, "{}"); code != http.StatusForbidden && code != http.StatusBadRequest || !strings.Contains(text, "The agent does not forward") {
				t.Errorf("%s by %q: %d, %s", request, caller.GetName(), code, text)
			}
		}
		if after := len(seen.of(method, path)); after != before {
			t.Errorf("%s: the API server received it", request)
		}
	}
}

// canaries are 20 headers with a text that no log may have, and which the API server may not receive.
var canaries = []string{
	"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes", "Authorization", "Proxy-Authorization", "Cookie", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes",
	"X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Signadot-Api-Key", "Signadot-Cluster", "Sd-Explain", "Sd-Routing-Key", "Baggage", "Traceparent", "X-Named",
}

// TestCanariesReachNeitherTheAPIServerNorALog sends 20 headers and a body with a secret in reads, writes and requests that are
// refused; newSite checks the log.
func TestCanariesReachNeitherTheAPIServerNorALog(t *testing.T) {
	const canary = "s3cret-canary"
	s, seen := recordedSite(t)
	s.Grant("switchyard:controlplane:acme:jo", "", rbacv1.PolicyRule{APIGroups: []string{"", "signadot.com"}, Resources: []string{"namespaces", "signadotsandboxes"}, Verbs: []string{"*"}})
	headers := []string{"Connection", "X-Named, User-Agent, If-Match", "User-Agent", canary, "If-Match", canary}
	for _, key := range canaries {
		headers = append(headers, key, "Bearer "+canary)
	}
	object := strings.Replace(sandbox(s.namespace, ""), `"metadata": {`, `"metadata": {"annotations": {"example.com/a": "`+canary+`"}, `, 1)
	for what, c := range map[string]struct {
		method, path, body string
		code               int
	}{
		"a read":                  {"GET", "/api/v1/namespaces/" + s.namespace, "", http.StatusOK},
		"a write":                 {"POST", sandboxes, object, http.StatusCreated},
		"a body that is not JSON": {"POST", sandboxes, canary, http.StatusBadRequest},
		"a refused request":       {"POST", "/api/v1/namespaces/" + s.namespace + "/secrets", canary, http.StatusForbidden},
		"without the right to it": {"GET", "/api/v1/namespaces/" + s.namespace + "/pods", canary, http.StatusForbidden},
	} {
		if code, text := s.call(t, jo, c.method, c.path, c.body, headers...); code != c.code {
			t.Errorf("%s: %d, %s", what, code, text)
		}
	}
	forwarded := slices.Concat(seen.of("GET", "/api/v1/namespaces/"+s.namespace), seen.of("POST", sandboxes))
	if len(forwarded) != 2 {
		t.Errorf("the API server received %d requests", len(forwarded))
	}
	own := "agent-" + s.operator // the account of the agent, which this test impersonates
	for _, r := range forwarded {
		for key, values := range r.Header {
			if text := strings.Join(values, " "); strings.Contains(text, canary) || !slices.Contains([]string{"Accept", "Accept-Encoding", "Content-Type"}, key) && text != "" && text != own {
				t.Errorf("%s %s: the API server received %s: %s", r.Method, r.URL.Path, key, text)
			}
		}
	}
	s.service(s.namespace, "cart")
	s.names.set("cart."+s.namespace+".svc", s.backend.String())
	s.Eventually("a Service", func() error { return s.reach(t, jo, "cart."+s.namespace+".svc", s.port) })
}

// rebinding is a DNS that answers each second look-up with loopback.
type rebinding struct {
	address netip.Addr
	asked   atomic.Int32
}

// LookupNetIP implements outbound.Resolver.
func (r *rebinding) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if r.asked.Add(1)%2 == 0 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{r.address}, nil
}

// twoServers begins a server at the address of pods and one on loopback, at the same port, and counts the connections of the
// latter.
func (s *site) twoServers(t *testing.T) (port uint16, onLoopback *atomic.Int32) {
	t.Helper()
	onLoopback = &atomic.Int32{}
	serve := func(l net.Listener, text string, count *atomic.Int32) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}
	for {
		local, err := net.Listen("tcp", "127.0.0.1:0")
		s.Must(err)
		port = local.Addr().(*net.TCPAddr).AddrPort().Port()
		pod, err := net.Listen("tcp", netip.AddrPortFrom(s.backend, port).String())
		if err != nil { // another process has it
			_ = local.Close()
			continue
		}
		t.Cleanup(func() {
			_ = local.Close()
			_ = pod.Close()
		})
		go serve(local, "loopback", onLoopback)
		go serve(pod, "backend", &atomic.Int32{})
		return port, onLoopback
	}
}

// TestDestinationsThatAreNone has names that are answered with another address at each look-up, and forms of addresses of
// this machine and of metadata servers.
func TestDestinationsThatAreNone(t *testing.T) {
	dns := &rebinding{}
	s := newSite(t, func(settings *agent.Settings) { settings.Resolver = dns })
	dns.address = s.backend
	port, reached := s.twoServers(t)
	s.service(s.namespace, "cart")
	host := "cart." + s.namespace + ".svc"
	s.Eventually("the Service", func() error { return s.reach(t, jo, host, port) })
	asked, answered := dns.asked.Load(), 0
	for range 20 {
		if s.reach(t, jo, host, port) == nil {
			answered++
		}
	}
	if n := dns.asked.Load() - asked; answered != 10 || n != 20 {
		t.Errorf("%d of 20 connections reached the Service, with %d look-ups", answered, n)
	}
	for _, host := range []string{
		"127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "[::ffff:127.0.0.1]", "::1", "[::1]", "0:0:0:0:0:0:0:1", "64:ff9b::7f00:1", "::127.0.0.1", "0.0.0.0", "::", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "0x7f000001",
		"localhost", "localhost.", "localhost.localdomain", "ip6-localhost", "127.0.0.1.", "127.0.0.1%lo", "::1%lo", "fe80::1%lo",
		"169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "224.0.0.1", "255.255.255.255", "",
	} {
		s.refused(t, "no destination", jo, host, port)
		s.refused(t, "no destination, for the control plane", &linkv1.Caller{}, host, port)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections reached loopback", n)
	}
}
