package recording_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/forked"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// site is a cluster with a sandbox and two replicas of traffic-manager, and what a recording there has noted and read.
type site struct {
	*forked.Site
	key  ed25519.PrivateKey
	user client.Client

	mu       sync.Mutex
	notes    []string
	got      []*trafficv1.Exchange
	workload string
}

func newSite(t *testing.T) *site {
	t.Helper()
	w := world.Shared(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	w.Must(err)
	keys, err := ticket.KeysOf(public)
	w.Must(err)
	s := &site{Site: forked.New(w, trusttest.New(t, "authority"), keys, "127.0.0.1"), key: private}
	s.Make(&crdv1.SignadotSandbox{}, "metadata: {name: "+s.Namespace+"}\nspec: {id: alice, customization: {patches: [{strategic: {}, target: {apiVersion: apps/v1, kind: Deployment, namespace: "+s.Namespace+", name: cart}}]}}")
	s.Grant("ada", "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"trafficcaptures"}, Verbs: []string{"create", "get", "patch", "delete"}})
	s.user = s.ClientWith(s.As("ada"), func() (*runtime.Scheme, error) { return s.Client.Scheme(), nil })
	return s
}

// config reaches the replicas without port-forwards.
func (s *site) config() recording.Config {
	return recording.Config{
		Client: s.user,
		Replicas: func(context.Context) ([]string, error) {
			return slices.Sorted(maps.Keys(s.Replicas())), nil
		},
		Dial: func(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
			roots := trust.NewRoots("the test")
			if err := roots.Set(s.Authority.Bundle()); err != nil {
				return nil, err
			}
			conn, err := trust.Dial(s.Replicas()[replica], forked.Host, roots)
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			return trafficv1.NewReadersClient(conn), err
		},
		Ticket: func(_ context.Context, namespace, capture string) (string, error) {
			text, _, err := ticket.Issue(s.key, ticket.Claims{Namespace: namespace, Capture: capture, User: "ada"}, time.Now())
			return text, err
		},
		Each: func(x *trafficv1.Exchange, workload string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got, s.workload = append(s.got, x), workload
			return nil
		},
		Note: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes = append(s.notes, text)
		},
	}
}

// noted returns the notes, and the targets of the exchanges in their order.
func (s *site) noted() (notes, targets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.got {
		targets = append(targets, x.GetRequest().GetTarget())
	}
	slices.Sort(targets)
	return slices.Clone(s.notes), targets
}
