package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/tests/background"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// store has resources that any client can have, by type and name.
type store struct {
	mu      sync.Mutex
	all     map[[2]string]string // versions
	changed chan struct{}
}

func newStore() *store { return &store{all: map[[2]string]string{}, changed: make(chan struct{})} }

// Open is serve.Sessions: the token is the identity.
func (s *store) Open(_ context.Context, token string) (serve.Session, error) {
	return serve.Session{Peer: serve.Peer{UID: token, Pod: token}, Source: s, Allows: func(string, string) error { return nil }}, nil
}

// Resources is serve.Source.
func (s *store) Resources() ([]translate.Resource, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []translate.Resource{}
	for _, k := range slices.SortedFunc(maps.Keys(s.all), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		out = append(out, translate.Resource{
			Type: k[0], Name: k[1], Version: s.all[k], Any: &anypb.Any{TypeUrl: k[0], Value: []byte(s.all[k])},
		})
	}
	return out, s.changed
}

// set gives a resource a version; "" removes it.
func (s *store) set(typeURL, name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := [2]string{typeURL, name}
	if s.all[k] = version; version == "" {
		delete(s.all, k)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) versions() map[[2]string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

// serveStore runs a server on a store.
func serveStore(t *testing.T, s *store, c serve.Config) (*serve.Server, *grpc.ClientConn) {
	t.Helper()
	c.Sessions = s
	server, err := serve.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, func(ctx context.Context) error { return server.Run(ctx, l) })
	return server, xdstest.Dial(t, l.Addr().String())
}

var modelTypes = []string{translate.RouteType, translate.PartType}

func modelName(i int) string { return fmt.Sprintf("name-%02d", i) }

const modelNames = 40

// player is a client that acts at random, within the protocol.
type player struct {
	t    *testing.T
	conn *grpc.ClientConn
	id   string
	dice *rand.Rand
	// has are its resources, asked the names that it has asked for, and refused all versions
	// that it refused on its current stream; by type and name.
	has     map[[2]string]string
	asked   map[[2]string]bool
	refused map[[3]string]bool
	rpc     discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// play connects and plays until ctx ends, and then accepts everything until it is
// left alone for a while. It comes back when it likes.
func (p *player) play(ctx context.Context, calm <-chan struct{}) error {
	for {
		stream, end := context.WithCancel(ctx)
		err := p.stream(stream, end, calm)
		end()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errAgain ends a stream that the client wants to end.
var errAgain = errors.New("again")

func (p *player) stream(ctx context.Context, end func(), calm <-chan struct{}) error {
	p.asked, p.refused = map[[2]string]bool{}, map[[3]string]bool{}
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.conn).DeltaAggregatedResources(
		metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+p.id))
	if err != nil {
		return err
	}
	p.rpc = rpc
	for _, typeURL := range modelTypes {
		if err := p.begin(typeURL); err != nil {
			return err
		}
	}
	for {
		r, err := rpc.Recv()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := p.answer(r, isClosed(calm)); errors.Is(err, errAgain) {
			end()
			return nil
		} else if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin subscribes to some names, and lists its versions.
func (p *player) begin(typeURL string) error {
	first := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, InitialResourceVersions: map[string]string{}}
	for i := range modelNames {
		k := [2]string{typeURL, modelName(i)}
		if p.dice.IntN(3) == 0 {
			continue
		}
		p.asked[k] = true
		first.ResourceNamesSubscribe = append(first.ResourceNamesSubscribe, k[1])
		if v, has := p.has[k]; has {
			first.InitialResourceVersions[k[1]] = v
		}
	}
	for k := range p.has { // what it does not ask for it throws away
		if k[0] == typeURL && !p.asked[k] {
			delete(p.has, k)
		}
	}
	return p.rpc.Send(first)
}

// answer takes in a response, checks that it should have come, and does something.
func (p *player) answer(r *discoveryv3.DeltaDiscoveryResponse, calm bool) error {
	together := r.TypeUrl == translate.PartType
	refuse := !calm && p.dice.IntN(5) == 0
	request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	if refuse {
		request.ErrorDetail = &statuspb.Status{Message: "I do not like it"}
	}
	for _, one := range r.Resources {
		k := [2]string{r.TypeUrl, one.Name}
		if p.asked[k] && p.has[k] == one.Version {
			p.t.Errorf("%s is sent %v version %s, which it has", p.id, k, one.Version)
		}
		if !together && p.refused[[3]string{k[0], k[1], one.Version}] {
			p.t.Errorf("%s is sent %v version %s again, which it refused", p.id, k, one.Version)
		}
		if string(one.Resource.Value) != one.Version {
			p.t.Errorf("%s is sent %v version %s with the content of %s", p.id, k, one.Version, one.Resource.Value)
		}
		if refuse {
			p.refused[[3]string{k[0], k[1], one.Version}] = true
		}
		if p.asked[k] && (together || !refuse) {
			p.has[k] = one.Version
		}
	}
	for _, name := range r.RemovedResources {
		delete(p.has, [2]string{r.TypeUrl, name})
	}
	if !calm {
		if p.dice.IntN(60) == 0 {
			return errAgain
		}
		p.changeMind(request)
	}
	return p.rpc.Send(request)
}

// changeMind asks for other names in the same request.
func (p *player) changeMind(request *discoveryv3.DeltaDiscoveryRequest) {
	for range p.dice.IntN(3) {
		k := [2]string{request.TypeUrl, modelName(p.dice.IntN(modelNames))}
		if slices.Contains(request.ResourceNamesSubscribe, k[1]) || slices.Contains(request.ResourceNamesUnsubscribe, k[1]) {
			continue
		}
		if p.asked[k] {
			request.ResourceNamesUnsubscribe = append(request.ResourceNamesUnsubscribe, k[1])
			delete(p.asked, k)
			delete(p.has, k)
		} else {
			request.ResourceNamesSubscribe = append(request.ResourceNamesSubscribe, k[1])
			p.asked[k] = true
		}
		for r := range p.refused {
			if r[0] == k[0] && r[1] == k[1] {
				delete(p.refused, r)
			}
		}
	}
}

// converged returns what is missing, "" for nothing. Call it when the player is idle.
func (p *player) converged(server map[[2]string]string) string {
	for k := range p.asked {
		if want := server[k]; p.has[k] != want && (k[0] == translate.PartType || !p.refused[[3]string{k[0], k[1], want}]) {
			return fmt.Sprintf("%s has %v %q and the server %q", p.id, k, p.has[k], want)
		}
	}
	return ""
}

// Many clients ask, change their minds, refuse and come back, while what there is
// changes all the time. When it stops changing, all have it.
func TestAllClientsConvergeWhateverTheyDo(t *testing.T) {
	const clients, changes = 24, 1500
	s := newStore()
	server, conn := serveStore(t, s, serve.Config{Types: modelTypes, Pace: time.Millisecond, Writers: 3, OpensPerPeer: 1 << 20})
	ctx, stop := context.WithCancel(t.Context())
	calm := make(chan struct{})
	ended := make(chan error, clients)
	conns := []*grpc.ClientConn{conn, xdstest.Dial(t, conn.Target()), xdstest.Dial(t, conn.Target())} // 16 streams each at most
	players := make([]*player, 0, clients)
	for i := range clients {
		p := &player{
			t: t, conn: conns[i%len(conns)], id: fmt.Sprintf("client-%d", i), has: map[[2]string]string{},
			dice: rand.New(rand.NewPCG(7, uint64(i))),
		}
		players = append(players, p)
		go func() { ended <- p.play(ctx, calm) }()
	}
	dice := rand.New(rand.NewPCG(42, 1))
	for i := range changes {
		version := fmt.Sprint(dice.IntN(6))
		if dice.IntN(6) == 0 {
			version = ""
		}
		s.set(modelTypes[dice.IntN(2)], modelName(dice.IntN(modelNames)), version)
		if i%10 == 0 {
			time.Sleep(time.Millisecond) // or nobody else has a turn
		}
	}
	close(calm)
	// The last change of each comes when all answer everything.
	for i := range modelNames {
		s.set(translate.RouteType, modelName(i), "last")
		s.set(translate.PartType, modelName(i), "last")
	}
	eventually(t, "all have acknowledged the last", func() bool {
		acks := server.Acks()
		return len(acks) > clients && !slices.ContainsFunc(acks, func(a serve.Ack) bool { return a.Acked != "last" })
	})
	stop()
	for range players {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, p := range players {
		if lacks := p.converged(s.versions()); lacks != "" {
			t.Error(lacks)
		}
	}
	eventually(t, "nothing is kept of them", func() bool { return len(server.Acks()) == 0 })
}
