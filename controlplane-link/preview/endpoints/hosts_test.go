package endpoints_test

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/preview/label"
)

var (
	seed  = flag.Uint64("seed", 0, "that of the random hosts; 0: a new one")
	hosts = flag.Int("hosts", 100_000, "how many random hosts are looked up")
)

// domains are the preview domains of two organisations.
var domains = endpoints.Domains{"acme": "acme.example", "rival": "preview.rival.example"}

// previews are the previews of the organisations, by their hosts: the host of the target, and the routing key.
var previews = map[string]string{
	"web--sb.acme.example": "acme: frontend.shop.svc acme-sb", "laptop--sb.acme.example": "acme: cart.shop.deploy acme-sb", "old--sb.acme.example": "acme: frontend.shop.svc acme-sb",
	"fork--sb.acme.example": "acme: cart.shop.deploy acme-sb", "rollout--sb.acme.example": "acme: route.shop.rollout acme-sb",
	"web--rg.acme.example": "acme: group.shop.svc acme-rg", "upper--sb-2.acme.example": "acme: first.shop.svc acme-sb-2",
	"web--sb.preview.rival.example": "rival: secret.shop.svc rival-sb", "web--only.preview.rival.example": "rival: secret.shop.svc rival-only",
}

// endpoint returns the specification of a sandbox or route group with endpoints, each a name and a target. Those of a sandbox
// are there in the older form again, without a target.
func endpoint(named ...string) json.RawMessage {
	var all []map[string]string
	for pair := range slices.Chunk(named, 2) {
		all = append(all, map[string]string{"name": pair[0], "target": pair[1], "cluster": "prod"})
	}
	text, err := json.Marshal(map[string]any{"defaultRouteGroup": map[string]any{"endpoints": all}, "endpoints": all})
	if err != nil {
		panic(err)
	}
	return text
}

// failing is a store that can fail.
type failing struct {
	*store.Store
	fail error
}

// Sandbox implements endpoints.Store.
func (f *failing) Sandbox(ctx context.Context, org, name string) (model.Sandbox, error) {
	if f.fail != nil {
		return model.Sandbox{}, f.fail
	}
	return f.Store.Sandbox(ctx, org, name)
}

// newStore returns a store with sandboxes and route groups of two organisations. Some names are of before they were checked.
func newStore(t testing.TB) *failing {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")
	must(err)
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys})
	must(err)
	t.Cleanup(func() { must(s.Close()) })
	ctx, now := t.Context(), time.Now()
	event := func(org string) model.Event {
		return model.Event{Org: org, ID: crand.Text(), Type: "test", At: now, By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
	}
	put := func(org, name string, spec json.RawMessage) {
		t.Helper()
		_, err := s.PutSandbox(ctx, model.Sandbox{Org: org, Name: name, Cluster: "prod", RoutingKey: org + "-" + name, Spec: spec, CreatedAt: now, UpdatedAt: now}, event(org))
		must(err)
	}
	for org := range domains {
		must(s.CreateOrganisation(ctx, model.Organisation{Name: org, CreatedAt: now}, event(org)))
		must(s.CreateCluster(ctx, model.Cluster{Org: org, Name: "prod", CreatedAt: now}, event(org)))
	}
	put("acme", "sb", json.RawMessage(forms))
	put("acme", "sb-2", endpoint("metadata", "http://169.254.169.254", "outside", "https://example.com.evil.org", "xn", "http://x.shop.svc", "a--b", "http://x.shop.svc",
		"Upper", "http://first.shop.svc", "upper", "http://second.shop.svc", "", "http://x.shop.svc", "a_b", "http://x.shop.svc"))
	put("acme", "s--b", endpoint("web", "http://x.shop.svc"))
	put("acme", "ended", endpoint("web", "http://x.shop.svc"))
	_, err = s.PutRouteGroup(ctx, model.RouteGroup{Org: "acme", Name: "rg", Cluster: "prod", RoutingKey: "acme-rg", Spec: endpoint("web", "http://group.shop.svc"), CreatedAt: now, UpdatedAt: now}, event("acme"))
	must(err)
	put("rival", "sb", endpoint("web", "http://secret.shop.svc"))
	put("rival", "only", endpoint("web", "http://secret.shop.svc"))
	must(s.DeleteSandbox(ctx, "acme", "ended", false, now, event("acme")))
	return &failing{Store: s}
}

// plain is a host that a preview can have, and its parts.
var plain = regexp.MustCompile(`^([a-zA-Z0-9.-]*[a-zA-Z0-9-])\.?(:[0-9]+)?$`)

// judge fails unless a host is, for each organisation, that of the preview which it has there, or of none. It returns how
// many have one.
func judge(t *testing.T, s endpoints.Store, host string) (found int) {
	t.Helper()
	want := ""
	if m := plain.FindStringSubmatch(host); m != nil {
		want = previews[strings.ToLower(m[1])]
	}
	for org, domain := range domains {
		l, err := label.Parse(host, domain)
		var e endpoints.Endpoint
		if err == nil {
			e, err = endpoints.Find(t.Context(), s, org, l)
			if err != nil && !errors.Is(err, model.ErrNotFound) {
				t.Fatal(err)
			}
		}
		got := ""
		if err == nil {
			got = fmt.Sprintf("%s: %s %s", e.Cluster.Organisation, e.Host, e.RoutingKey)
			found++
		}
		if of, _, _ := strings.Cut(want, ":"); of != org && got != "" || of == org && got != want {
			t.Fatalf("at organisation %s host %q is %q, want %q", org, host, got, want)
		}
	}
	return found
}

// pieces are parts of hosts, among which are some that other programs take for others.
var pieces = []string{
	"-", "--", "---", ".", "..", ":", ":443", ":٤٤٣", "@", "/", "%2e", "%2E", "\x00", " ", "\t", "\n", "\r", "_", "*", "[", "]", "::1", "\\", "?", "#", "xn--", "XN--", "xn", "web", "sb", "rival", "a",
	"\u3002", "\uff0e", "\uff61", "\u00ad", "\u200b", "\u200d", "\u2011", "\u2010", "\ufe63", "\uff0d", "\u212a", "\u017f", "\u0130", "\u0131", "\u00df", "\uff57", "\u0455", "\ufeff", "\u202e", "\xff", "e\u0301", "😀",
	"acme", "acme.example", ".acme.example", "preview.rival.example", ".preview.rival.example", "169.254.169.254", "kubernetes.default.svc", "localhost", strings.Repeat("a", 64), strings.Repeat("a.", 130),
}

// folding replaces letters by those that become them in lower case, or in a comparison without case.
var folding = strings.NewReplacer("k", "\u212a", "i", "\u0130", "s", "\u017f")

// next returns a random host: one of a preview, or made of parts of several, with changes.
func next(rng *rand.Rand) string {
	known := slices.Sorted(maps.Keys(previews))
	one := func(all ...string) string { return all[rng.IntN(len(all))] }
	host := one(known...)
	if rng.IntN(3) == 0 {
		host = one("web", "laptop", "Upper", "metadata", "outside", "xn", "a--b", "a_b", "", "rollout", one(pieces...)) + one("--", "--", "-", "") +
			one("sb", "sb-2", "s--b", "rg", "ended", "only", "prod", one(pieces...)) + one(".acme.example", ".preview.rival.example", ".example", "")
	}
	text := []rune(host)
	for range rng.IntN(4) {
		i, j := rng.IntN(len(text)+1), rng.IntN(len(text)+1)
		i, j = min(i, j), max(i, j)
		switch rng.IntN(6) {
		case 0:
			text = slices.Insert(text, i, []rune(one(pieces...))...)
		case 1:
			text = slices.Delete(text, i, min(j, i+2))
		case 2:
			text = slices.Concat(text[:i], []rune(strings.ToUpper(string(text[i:j]))), text[j:])
		case 3:
			text = slices.Concat(text[:i], text[i:j], text[i:j], text[j:])
		case 4:
			text = []rune(folding.Replace(string(text)))
		case 5:
			text = append(text, []rune(one(".", ":8445", ".:443", ":", "..", ".."+one(pieces...)))...)
		}
	}
	return string(text)
}

// TestRandomHostsAreOfTheOrganisation looks up random hosts. For longer: -hosts=10000000.
func TestRandomHostsAreOfTheOrganisation(t *testing.T) {
	of := cmp.Or(*seed, rand.Uint64())
	t.Logf("-seed=%d", of)
	s, rng, found := newStore(t), rand.New(rand.NewPCG(of, 0)), 0
	for range *hosts {
		found += judge(t, s, next(rng))
	}
	t.Logf("%d of %d hosts are of a preview", found, *hosts)
	if found < *hosts/20 || found > *hosts*19/20 {
		t.Errorf("%d of %d hosts are of a preview: they are too similar", found, *hosts)
	}
}

func FuzzHosts(f *testing.F) {
	for host := range previews {
		f.Add(host)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for range 200 {
		f.Add(next(rng))
	}
	s := newStore(f)
	f.Fuzz(func(t *testing.T, host string) { judge(t, s, host) })
}
