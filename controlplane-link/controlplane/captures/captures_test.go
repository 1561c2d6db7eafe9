package captures_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/trust"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/forked"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/jobexec/results"
)

func TestMain(m *testing.M) { world.Main(m) }

// The keys of administrators of organisation acme, without and with rights in the cluster, and of another organisation.
var ada, eve = "key-of-ada-" + strings.Repeat("a", 42), "key-of-eve-" + strings.Repeat("e", 42)

const system, other = "signadot", "other"

// site is a whole control plane with a cluster: the real agent, tickets of the real manager's service, and real replicas of
// traffic-manager. The test does what the operator and the traffic container do.
type site struct {
	*forked.Site
	dir   string
	log   *background.Output
	front *deliveries.Front
	main  *controlplane.Main
	stop  func()
	http  *http.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	w := world.Shared(t)
	s := &site{dir: t.TempDir(), log: &background.Output{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	w.Must(deliveries.Prepare(t.Context(), w.Server))
	w.Must(deliveries.Files(s.dir))
	service := runners.Serve(w, system, "system:serviceaccount:"+system+":signadot-agent")
	keys, err := ticket.ParseKeys(service.CaptureKeys())
	w.Must(err)
	s.Site = forked.New(w, service.Authority, *keys, address(w))
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "signadot-authority"}, Data: map[string]string{trust.BundleFile: service.CA}})
	s.Accounts(system, "signadot-agent")
	token := filepath.Join(s.dir, "account")
	s.Must(os.WriteFile(token, []byte(s.Token(system, "signadot-agent", "", nil)), 0o600))
	s.front, err = deliveries.NewFront()
	s.Must(err)
	t.Cleanup(func() { _ = s.front.Close() })
	t.Setenv("CONTROLPLANE_SOCKET", filepath.Join(s.dir, "admin.sock"))
	s.begin(t)
	s.users()
	background.Run(t, deliveries.Agent{
		Access: w.Config, Dir: s.dir, Address: s.front.Address(), Token: deliveries.Token("prod"), Log: s.log,
		Change: func(a *agent.Settings) { a.Runners, a.AccountTokenFile = service.Address, token },
	}.Run)
	return s
}

// address returns one of this machine that is not loopback: EndpointSlices have no other.
func address(w *world.World) string {
	w.Helper()
	all, err := net.InterfaceAddrs()
	w.Must(err)
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	w.Fatal("this machine needs an address that is not loopback")
	return ""
}

// begin starts the control plane on its store.
func (s *site) begin(t *testing.T) {
	t.Helper()
	c, err := deliveries.Whole(s.dir, slog.New(slog.NewTextHandler(s.log, nil)))
	s.Must(err)
	c.Artifacts, c.Captures = results.Config{Folder: filepath.Join(s.dir, "artifacts")}, captures.Limits{Capture: 4 << 10}
	s.main, err = controlplane.New(t.Context(), c)
	s.Must(err)
	s.front.Set(s.main.Listeners["agents"].Addr().String())
	s.stop = background.Run(t, s.main.Run)
	authority, err := os.ReadFile(filepath.Join(s.dir, trust.BundleFile))
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}}
}

// users creates the organisations, the cluster, and the administrators with their keys.
func (s *site) users() {
	s.Helper()
	in := s.main.Store()
	s.Must(deliveries.Fill(s.Context(), in, "prod"))
	s.Must(in.CreateOrganisation(s.Context(), model.Organisation{Name: other}, model.Event{Org: other, ID: "org-" + other, Type: "org.create"}))
	for org, key := range map[string]string{deliveries.Organisation: ada, other: eve} {
		u := model.User{Org: org, ID: "u-" + org, Email: "admin@" + org + ".example", Role: model.RoleAdmin}
		s.Must(in.PutUser(s.Context(), u, model.Event{Org: org, ID: "user-" + org, Type: "test"}))
		s.Must(in.CreateAPIKey(s.Context(), model.APIKey{
			Org: org, ID: "key-" + org, Owner: model.Principal{Kind: model.KindUser, ID: u.ID}, Masked: key[:6], Digest: model.DigestOf(key),
		}, model.Event{Org: org, ID: "key-" + org, Type: "test"}))
	}
}

// slice has the endpoint of a replica, as the Service has it.
func (s *site) slice(name string) {
	s.Helper()
	at := netip.MustParseAddrPort(s.Replicas()[name])
	s.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: system, Name: "traffic-manager-" + name, Labels: map[string]string{discoveryv1.LabelServiceName: "traffic-manager"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("grpc"), Port: ptr.To(int32(at.Port()))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name}}},
	})
}

// call sends a request with a key, and returns the answer.
func (s *site) call(key, method, path, body string) (status int, text []byte) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, fmt.Sprintf("https://%s/api/v2/orgs/%s", s.main.Listeners["api"].Addr(), path), strings.NewReader(body))
	s.Must(err)
	r.Header.Set("Signadot-Api-Key", key)
	answer, err := s.http.Do(r)
	s.Must(err)
	defer answer.Body.Close() //nolint:errcheck // of a test
	text, err = io.ReadAll(answer.Body)
	s.Must(err)
	return answer.StatusCode, text
}

// does sends a request of ada.
func (s *site) does(method, path, body string, into any) {
	s.Helper()
	status, text := s.call(ada, method, deliveries.Organisation+"/"+path, body)
	if status != http.StatusOK {
		s.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if into != nil {
		s.Must(json.Unmarshal(text, into))
	}
}

// capture creates the sandbox of which the fork is, and begins a capture.
func (s *site) capture(spec string) v2.Capture {
	s.Helper()
	s.does(http.MethodPut, "sandboxes/"+s.Namespace, fmt.Sprintf(`{"name": %q, "spec": {"cluster": "prod", "forks": [{"forkOf": {"kind": "Deployment", "namespace": %q, "name": "cart"}, "customizations": {"env": [{"name": "A", "value": "b"}]}}]}}`, s.Namespace, s.Namespace), nil)
	var c v2.Capture
	s.does(http.MethodPost, "captures", fmt.Sprintf(`{"spec": {"sandbox": %q%s}}`, s.Namespace, spec), &c)
	return c
}

// is waits until a capture is as a check wants it.
func (s *site) is(c v2.Capture, what string, check func(v2.Capture) bool) (now v2.Capture) {
	s.Helper()
	s.Eventually("the capture "+what, func() error {
		now = v2.Capture{}
		if s.does(http.MethodGet, "captures/"+c.Name, "", &now); !check(now) {
			return fmt.Errorf("it is %+v: %s", now.Status, ptr.Deref(now.Status.Message, ""))
		}
		return nil
	})
	return now
}

// sees waits until the control plane has exactly these requests.
func (s *site) sees(c v2.Capture, want ...string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("the requests are %q", want), func() error {
		var all []published.Meta
		s.does(http.MethodGet, "captures/"+c.Name+"/requests", "", &all)
		var got []string
		for _, m := range all {
			if got = append(got, m.RequestURI); m.DestWorkload != "ForkedWorkload/"+s.Namespace+"/cart-alice" || m.Capture.Status != http.StatusOK {
				s.Errorf("%+v", m)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

func ended(c v2.Capture) bool { return c.Status.Phase == "ended" }

// holds checks that nothing is missing of a capture that has ended.
func (s *site) holds(c v2.Capture) {
	s.Helper()
	n := c.Status.Counts
	sum := n.Stored + n.SampledOut + n.Evicted
	for _, k := range n.Lost {
		sum += k
	}
	if sum != n.Seen || n.Pending != 0 || n.Stored != c.Status.Requests {
		s.Errorf("the identity does not hold: %+v, %d requests", n, c.Status.Requests)
	}
}

// A capture is recorded through the link, once, whatever is interrupted, and no other organisation can read it.
func TestACaptureOfAnOrganisation(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"one", "two"} {
		s.Start(name)
		s.slice(name)
	}
	c := s.capture(`, "workload": "cart", "duration": "50m"`)
	in := s.Created()
	if by, _, err := crdv1.AuthorOf(in.Annotations); err != nil || in.Name != c.Name || in.Spec.Lease == nil || in.Spec.Workload != "cart" || by.User != "switchyard:controlplane:acme:admin@acme.example" {
		t.Errorf("the object is %+v of %v, %v", in, by, err)
	}
	s.Attached(in, "False", "the container does not listen yet")
	s.is(c, "waits", func(c v2.Capture) bool {
		return c.Status.Phase == "pending" && strings.Contains(ptr.Deref(c.Status.Message, ""), "does not listen yet")
	})
	s.Attached(in, "True", "every request is recorded")
	s.is(c, "records", func(c v2.Capture) bool { return c.Status.Phase == "recording" })
	s.Deliver("one", in, 3, 1, 2)
	s.sees(c, "/1", "/2")

	s.front.Cut()
	s.Deliver("two", in, 5, 2, 3, 4)
	s.front.Mend()
	s.sees(c, "/1", "/2", "/3", "/4")
	s.stop()
	s.Deliver("one", in, 6, 5)
	s.begin(t)
	s.sees(c, "/1", "/2", "/3", "/4", "/5")

	s.isolated(t, c)
	s.does(http.MethodPut, "captures/"+c.Name+"/end", "", nil)
	s.Detached(in)
	c = s.is(c, "has ended", ended)
	if n := c.Status.Counts; n.Seen != 6 || n.Stored != 5 || n.Lost["memory"] != 1 || ptr.Deref(c.Status.Message, "") != "A user has ended it." {
		t.Errorf("%+v: %s", n, ptr.Deref(c.Status.Message, ""))
	}
	s.holds(c)
	s.archive(t, c)
	s.isolated(t, c)
	s.does(http.MethodDelete, "captures/"+c.Name, "", nil)
	if status, _ := s.call(ada, http.MethodGet, "acme/captures/"+c.Name, ""); status != http.StatusNotFound {
		t.Errorf("a capture that was deleted: %d", status)
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, "artifacts", "acme", "_captures")); len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	s.others(t)
	s.smartTest(t)
}

// others: a capture of a workload that the sandbox does not fork, and one that is too large.
func (s *site) others(t *testing.T) {
	t.Helper()
	s.is(s.capture(`, "workload": "search"`), "has no fork", func(c v2.Capture) bool {
		return ended(c) && strings.Contains(ptr.Deref(c.Status.Message, ""), "has forks, external and virtual workloads of cart, and none of search")
	})
	c := s.capture("")
	in := s.Created()
	s.Attached(in, "True", "every request is recorded")
	s.is(c, "records", func(c v2.Capture) bool { return c.Status.Phase == "recording" })
	var numbers []uint64
	for n := uint64(1); n <= 100; n++ {
		numbers = append(numbers, n)
	}
	s.Deliver("one", in, 101, numbers...)
	s.Detached(in)
	c = s.is(c, "is full", ended)
	if n := c.Status.Counts; n.Seen != 101 || n.Lost["full"] == 0 || n.Lost["full"]+n.Stored != 100 || c.Status.Bytes > 5<<10 || ptr.Deref(c.Status.Message, "") != "It has its maximum size." {
		t.Errorf("%+v: %s", c.Status, ptr.Deref(c.Status.Message, ""))
	}
	s.holds(c)
	for body, says := range map[string]string{
		`{"spec": {"sandbox": "none"}}`: "not found", `{"spec": {"sandbox": "none", "duration": "2h"}}`: "at most 1h0m0s", `{"spec": {}}`: "sandbox",
	} {
		if status, text := s.call(ada, http.MethodPost, "acme/captures", body); status < 400 || status >= 500 || !strings.Contains(string(text), says) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// isolated checks that another organisation reads nothing of a capture.
func (s *site) isolated(t *testing.T, c v2.Capture) {
	t.Helper()
	for _, path := range []string{"", "/requests", "/har"} {
		for org, want := range map[string]int{other: http.StatusNotFound, deliveries.Organisation: http.StatusForbidden} {
			if status, text := s.call(eve, http.MethodGet, org+"/captures/"+c.Name+path, ""); status != want || bytes.Contains(text, []byte("/1")) {
				t.Errorf("another organisation reads %s%s: %d %s", org, path, status, text)
			}
		}
		if status, _ := s.call(ada, http.MethodGet, deliveries.Organisation+"/captures/"+c.Name+path, ""); status != http.StatusOK {
			t.Errorf("its own reads %s: %d", path, status)
		}
	}
	for method, path := range map[string]string{http.MethodDelete: "", http.MethodPut: "/end"} {
		if status, _ := s.call(eve, method, other+"/captures/"+c.Name+path, ""); status != http.StatusNotFound {
			t.Errorf("another organisation: %s %d", method, status)
		}
	}
	if status, text := s.call(eve, http.MethodGet, other+"/captures", ""); status != http.StatusOK || strings.TrimSpace(string(text)) != "[]" {
		t.Errorf("another organisation lists %d %s", status, text)
	}
}

// archive checks the download of a capture.
func (s *site) archive(t *testing.T, c v2.Capture) {
	t.Helper()
	var archive struct {
		Log struct {
			Entries []any
			Comment string
		}
	}
	_, text := s.call(ada, http.MethodGet, "acme/captures/"+c.Name+"/har", "")
	if err := json.Unmarshal(text, &archive); err != nil || len(archive.Log.Entries) != 5 || !strings.Contains(archive.Log.Comment, "6 seen = 5 stored") {
		t.Errorf("the archive has %d: %s, %v", len(archive.Log.Entries), archive.Log.Comment, err)
	}
}
