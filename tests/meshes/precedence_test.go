package meshes

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/tests/world"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that random routes follow from")

// randomRequests is how many random requests are sent to each set of routes.
const randomRequests = 30

// implementation decides who answers a request, beside a stock Envoy.
type implementation struct {
	order    precedence.Order
	oddities []oddity
	// gateways and services are how many sets of routes there are at Gateways and of Services.
	gateways, services int
	// shift is what its proxy adds to the port of a Gateway.
	shift int
	// oddity returns what is odd about a set, "" for most. suit, unless nil, makes the routes of a
	// set such that nothing else is, and reports whether any are left.
	oddity func(dice, *routeSet) oddity
	suit   func(*routeSet) bool
	// define gives a cluster what is to stand there before the routes.
	define func(*world.World)
	// serve starts it and has it asked for all sets.
	serve func(w *world.World, sets []*routeSet, ask func(*Mesh, asker, []*routeSet))
}

// TestPrecedenceIsThatOfIstiod compares the package precedence with istiod.
func TestPrecedenceIsThatOfIstiod(t *testing.T) {
	implementation{
		order: precedence.Istiod, oddities: istiodOddities, gateways: 800, services: 200, oddity: dice.istiodOddity,
		define: func(w *world.World) {
			for _, g := range gateways("istio", 800) {
				w.Create(addressed(g)...)
				w.Must(gatewayClient(w).Create(w.Context(), g))
			}
		},
		serve: func(w *world.World, sets []*routeSet, ask func(*Mesh, asker, []*routeSet)) {
			m := Start(w)
			// An istiod that starts beside Gateways on a slow machine can omit the listeners of all Gateways from the
			// configuration of proxies, until a Gateway changes.
			w.Must(gatewayClient(w).Create(w.Context(), lateGateway()))
			m.Run(Proxy{Kind: Gateway, Name: "gateway", Namespace: routeNamespaces[0], IP: gatewayIP, Labels: gatewayLabels})
			m.Run(Proxy{Kind: Sidecar, Name: "client", Namespace: "istio-system", IP: net.IPv4(10, 77, 2, 1)})
			m.Synced()
			ask(m, asker{gateway: Client(gatewayIP), sidecar: Client(net.IPv4(127, 0, 0, 1))}, sets)
		},
	}.agrees(t)
}

// lateGateway returns a Gateway without routes.
func lateGateway() *gatewayv1.Gateway {
	g := gateways("istio", 1)[0]
	g.Name, g.Spec.Listeners[0].Port = "late", firstPort-1
	return g
}

// agrees compares which rule answers a request by the package precedence with the one that
// answers where the implementation and a stock Envoy decide. The requests are random ones and
// all that the package finds itself as lost.
func (i implementation) agrees(t *testing.T) {
	w := world.Bare(t, "service-cluster-ip-range=10.96.0.0/16")
	Install(w)
	w.Namespaces(routeNamespaces...)
	i.define(w)
	began := time.Now()
	took := func(format string, of ...any) {
		t.Logf("%s in %s", fmt.Sprintf(format, of...), time.Since(began).Round(100*time.Millisecond))
		began = time.Now()
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	sets := i.draw(dice{Rand: rng})
	// Beside routes that are there already an implementation reckons once, and not after each.
	createSets(w, rng, sets)
	took("-seed=%d: %d sets of %d routes made", *seed, len(sets), len(objects(sets)))
	seen := &answers{excused: map[oddity]int{}}
	i.serve(w, sets, seen.compare)
	took("%d requests compared, %d of them lost by a rule; %d answered otherwise", seen.asked, seen.lost, seen.wrong)
	for _, o := range i.oddities {
		t.Logf("%d answered otherwise where that is known: %s", seen.excused[o], o)
		if seen.excused[o] == 0 {
			t.Errorf("nothing is answered otherwise any more because of %s: let all sets have it", o)
		}
	}
	if seen.wrong > 0 {
		t.Errorf("%d requests are answered otherwise, with -seed=%d", seen.wrong, *seed)
	}
}

// draw returns all sets, whose routes have not been created yet.
func (i implementation) draw(d dice) []*routeSet {
	var sets []*routeSet
	for n := range i.gateways + i.services {
		s := &routeSet{number: n, order: i.order, parent: gatewayPort(n), port: firstPort + i.shift + n}
		if n >= i.gateways {
			name := fmt.Sprintf("s%d", n)
			s = &routeSet{number: n, order: i.order, parent: servicePort(name, d.oneIn(2)), host: name + "." + routeNamespaces[0], port: Port}
		}
		s.oddity = i.oddity(d, s)
		d.routes(s)
		for i.suit != nil && !i.suit(s) {
			d.routes(s)
		}
		for _, o := range s.objects {
			sign(o)
		}
		sets = append(sets, s)
	}
	return sets
}

func objects(sets []*routeSet) []client.Object {
	var out []client.Object
	for _, s := range sets {
		out = append(out, s.objects...)
	}
	return out
}

// gatewayClient returns a client that knows the kinds of the Gateway API.
func gatewayClient(w *world.World) client.Client {
	return w.ClientWith(w.Config, func() (*runtime.Scheme, error) {
		s := runtime.NewScheme()
		return s, gatewayv1.Install(s)
	})
}

// createSets creates the routes of all sets: of every other set directly after one another, so
// that most are of one second, of the others at any time.
func createSets(w *world.World, rng *rand.Rand, sets []*routeSet) {
	w.Helper()
	kinds := gatewayClient(w)
	var near, far []*routeSet
	for i, s := range sets {
		if i%2 == 0 {
			near = append(near, s)
		} else {
			far = append(far, s)
		}
		if s.ofService() {
			w.Create(echoService(routeNamespaces[0], string(s.parent.Name)))
		}
	}
	all := objects(far)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = append(all, objects(near)...)
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(8)
	for _, o := range all {
		group.Go(func() error { return kinds.Create(ctx, o) })
	}
	w.Must(group.Wait())
	for _, s := range sets {
		s.see()
	}
}

// see fills in what the calculator sees of the routes, which have been created.
func (s *routeSet) see() {
	for _, o := range s.objects {
		var r precedence.Route
		switch o := o.(type) {
		case *gatewayv1.HTTPRoute:
			r = precedence.OfHTTP(o)
		case *gatewayv1.GRPCRoute:
			r = precedence.OfGRPC(o)
		}
		if s.ofService() {
			r.Hostnames = nil // the mesh does not look at them
		}
		s.routes = append(s.routes, r)
	}
}

// answers is what became of the requests.
type answers struct {
	sync.Mutex
	asked, lost, wrong int
	// excused counts what is answered otherwise in sets with an oddity.
	excused map[oddity]int
}

// compare compares the answers to requests of these sets.
func (a *answers) compare(m *Mesh, from asker, sets []*routeSet) {
	answered := 0
	m.Await("all parents answer", func() error {
		for ; answered < len(sets); answered++ {
			if _, err := from.ask(m.Context(), sets[answered], precedence.Request{Method: http.MethodGet, Path: "/"}); err != nil {
				return fmt.Errorf("%d of %d answer, the next: %w", answered, len(sets), err)
			}
		}
		return nil
	})
	group, ctx := errgroup.WithContext(m.Context())
	group.SetLimit(4)
	for _, s := range sets {
		group.Go(func() error {
			lost := s.lost()
			for j, q := range slices.Concat(lost, s.random()) {
				got, err := from.ask(ctx, s, q)
				if err != nil {
					return err
				}
				a.add(m, s, q, got, j < len(lost))
			}
			return nil
		})
	}
	m.Must(group.Wait())
}

// add counts an answer, and fails the test when it is a wrong one and no oddity explains it.
func (a *answers) add(t testing.TB, s *routeSet, q precedence.Request, got string, lost bool) {
	a.Lock()
	defer a.Unlock()
	a.asked++
	if lost {
		a.lost++
	}
	want := s.winner(q)
	if got == want {
		return
	}
	if s.oddity != "" {
		a.excused[s.oddity]++
		return
	}
	if a.wrong++; a.wrong <= 5 {
		t.Errorf("%s is answered by %q, by the calculator by %q, among\n%s", q, got, want, s)
	}
}

// winner returns which rule answers a request by the calculator, "" when none does.
func (s *routeSet) winner(q precedence.Request) string {
	at, found := s.order.Winner(s.routes, q)
	if !found {
		return ""
	}
	return ruleName(s.routes[at.Route].Name, at.Rule)
}

// lost returns the requests that the calculator finds as lost by any rule.
func (s *routeSet) lost() []precedence.Request {
	var out []precedence.Request
	for i := range s.routes {
		for j := range s.routes[i].Rules {
			for _, l := range s.order.Losses(s.routes, 0, precedence.At{Route: i, Rule: j}) {
				out = append(out, l.Request)
			}
		}
	}
	return out
}

// random returns random requests.
func (s *routeSet) random() []precedence.Request {
	d := dice{Rand: rand.New(rand.NewPCG(*seed, uint64(s.number)+2))}
	var out []precedence.Request
	for range randomRequests {
		out = append(out, d.request())
	}
	return out
}
