package replicas

import (
	"context"
	"crypto/sha256"
	"net"
	"net/rpc"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/registry"
)

// store is the registry and the cluster tokens of several replicas, in a process of its own.
type store struct {
	registry registry.Memory
	tokens   registry.MemoryTokens

	mu      sync.Mutex
	changes []change
	more    chan struct{}
}

// change is a change that watchers are notified of.
type change struct {
	Cluster registry.Cluster
	Entry   admission.Entry
	Revoked string // the ID of a token
}

// Store is the role of the process with the store.
type Store struct{ store }

// Listen serves the store, and returns its address.
func (r *Store) Listen(tokens map[string]registry.Token, address *string) error {
	all := map[[sha256.Size]byte]registry.Token{}
	for value, t := range tokens {
		all[sha256.Sum256([]byte(value))] = t
	}
	r.tokens.Set(all)
	r.more = make(chan struct{})
	r.registry.Watch(context.Background(), func(c registry.Cluster, e admission.Entry) { r.add(change{Cluster: c, Entry: e}) })
	r.tokens.Watch(context.Background(), func(id string) { r.add(change{Revoked: id}) })
	server := rpc.NewServer()
	if err := server.RegisterName("Store", &calls{&r.store}); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	*address = l.Addr().String()
	go server.Accept(l)
	return nil
}

func (s *store) add(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c)
	close(s.more)
	s.more = make(chan struct{})
}

// calls are the methods of the store, as net/rpc requires them.
type calls struct{ *store }

// Swapped are the arguments of Swap.
type Swapped struct {
	Cluster   registry.Cluster
	Old, Next admission.Entry
}

// Found is the result of Find.
type Found struct {
	Token registry.Token
	Known bool
}

// Get implements registry.Registry.
func (c *calls) Get(of registry.Cluster, e *admission.Entry) (err error) {
	*e, err = c.registry.Get(context.Background(), of)
	return err
}

// Swap implements registry.Registry.
func (c *calls) Swap(a Swapped, done *bool) (err error) {
	*done, err = c.registry.Swap(context.Background(), a.Cluster, a.Old, a.Next)
	return err
}

// Find implements registry.Tokens.
func (c *calls) Find(value string, f *Found) (err error) {
	f.Token, f.Known, err = c.tokens.Find(context.Background(), value)
	return err
}

// Valid implements registry.Tokens.
func (c *calls) Valid(id string, is *bool) (err error) {
	*is, err = c.tokens.Valid(context.Background(), id)
	return err
}

// Bind implements registry.Tokens.
func (c *calls) Bind(a [2]string, to *string) (err error) {
	*to, err = c.tokens.Bind(context.Background(), a[0], a[1])
	return err
}

// Changes returns the changes after the first n. It waits for one.
func (c *calls) Changes(n int, out *[]change) error {
	for {
		c.mu.Lock()
		more := c.more
		*out = append(*out, c.changes[n:]...)
		c.mu.Unlock()
		if len(*out) > 0 {
			return nil
		}
		<-more
	}
}

// remote is a store in another process.
type remote struct{ client *rpc.Client }

func call[T any](ctx context.Context, r remote, method string, arguments any) (reply T, err error) {
	done := r.client.Go("Store."+method, arguments, &reply, make(chan *rpc.Call, 1))
	select {
	case <-done.Done:
		return reply, done.Error
	case <-ctx.Done():
		var none T
		return none, ctx.Err() // reply may still be written
	}
}

// Registry implements registry.Registry by the store of another process.
type Registry struct{ remote }

// Tokens implements registry.Tokens by it.
type Tokens struct{ remote }

// Dial connects to a store. Close ends the connection of both.
func Dial(address string) (Registry, Tokens, error) {
	client, err := rpc.Dial("tcp", address)
	return Registry{remote{client}}, Tokens{remote{client}}, err
}

// Close ends the connection.
func (r remote) Close() error { return r.client.Close() }

// Get implements registry.Registry.
func (r Registry) Get(ctx context.Context, c registry.Cluster) (admission.Entry, error) {
	return call[admission.Entry](ctx, r.remote, "Get", c)
}

// Swap implements registry.Registry.
func (r Registry) Swap(ctx context.Context, c registry.Cluster, old, next admission.Entry) (bool, error) {
	return call[bool](ctx, r.remote, "Swap", Swapped{c, old, next})
}

// Watch implements registry.Registry.
func (r Registry) Watch(ctx context.Context, changed func(registry.Cluster, admission.Entry)) {
	go r.follow(ctx, func(c change) {
		if c.Revoked == "" {
			changed(c.Cluster, c.Entry)
		}
	})
}

// Find implements registry.Tokens.
func (r Tokens) Find(ctx context.Context, value string) (registry.Token, bool, error) {
	f, err := call[Found](ctx, r.remote, "Find", value)
	return f.Token, f.Known, err
}

// Valid implements registry.Tokens.
func (r Tokens) Valid(ctx context.Context, id string) (bool, error) {
	return call[bool](ctx, r.remote, "Valid", id)
}

// Bind implements registry.Tokens.
func (r Tokens) Bind(ctx context.Context, id, uid string) (string, error) {
	return call[string](ctx, r.remote, "Bind", [2]string{id, uid})
}

// Watch implements registry.Tokens.
func (r Tokens) Watch(ctx context.Context, revoked func(id string)) {
	go r.follow(ctx, func(c change) {
		if c.Revoked != "" {
			revoked(c.Revoked)
		}
	})
}

// follow calls do with each change until ctx ends.
func (r remote) follow(ctx context.Context, do func(change)) {
	for n := 0; ctx.Err() == nil; {
		next, err := call[[]change](ctx, r, "Changes", n)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
		n += len(next)
		for _, c := range next {
			do(c)
		}
	}
}
