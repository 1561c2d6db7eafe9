package outages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/tests/link/replicas"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/relay"
)

const (
	replicaCount = 3
	// atOnce is how many requests are sent at a time, and everyKilled the pause between those of each sender while a
	// replica is killed.
	atOnce, everyKilled = 10, 50 * time.Millisecond
	// killedFor is how long requests are sent after that.
	killedFor = 20 * time.Second
)

// Replicas is the result of a control plane with several replicas.
type Replicas struct {
	// Requests is the number of requests through random replicas, of which Failed failed.
	Requests, Failed int
	// Kills is how often the replica with the agent's session was killed. Failures are the times from each kill to the end
	// of the last request that failed through another replica; 0: none did. Longest is the longest time of a request there.
	Kills    int
	Failures []time.Duration
	Longest  time.Duration
	notes    []error
}

// plane is a control plane of several replicas.
type plane struct {
	*world
	files
	store    *process.Process
	address  string // of the store
	registry replicas.Registry
	mutex    sync.Mutex
	all      []*replica
	front    net.Listener
	agent    *program.Program
}

// replica is one of them.
type replica struct {
	process *process.Process
	address string // for other replicas
	at      map[string]string
	user    *user
}

// newPlane starts the replicas and the agent.
func (w *world) newPlane() (p *plane, err error) {
	p = &plane{world: w}
	if p.files, err = w.newFiles("replicas", net.IPv4(127, 0, 0, 1)); err != nil {
		return p, err
	}
	mutual, err := selfsigned.New("replica")
	if err != nil {
		return p, err
	}
	token := secret()
	if err := errors.Join(mutual.Write(filepath.Join(p.folder, replicas.Folder)), p.credentials(map[string]string{clusterName: token})); err != nil {
		return p, err
	}
	if p.store, err = process.Start(roleStore); err != nil {
		return p, err
	}
	known := map[string]registry.Token{token: {ID: "1", Cluster: registry.Cluster{Organisation: organisation, Name: clusterName}}}
	if err := p.store.Call("Listen", known, &p.address); err != nil {
		return p, err
	}
	if p.registry, _, err = replicas.Dial(p.address); err != nil {
		return p, err
	}
	for range replicaCount {
		free, err := port.Free()
		if err != nil {
			return p, err
		}
		r := &replica{address: fmt.Sprintf("127.0.0.1:%d", free)}
		p.all = append(p.all, r)
		if err := p.start(r); err != nil {
			return p, err
		}
	}
	if p.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return p, err
	}
	go p.forward()
	if p.agent, err = w.startAgent(p.files, "replicas", p.front.Addr().String(), token); err != nil {
		return p, err
	}
	return p, p.steady(p.all[0].user)
}

// start starts a replica, again when it was killed.
func (p *plane) start(r *replica) error {
	started, err := process.Start(roleReplica)
	if err != nil {
		return err
	}
	at := map[string]string{}
	err = started.Call("Start", replicas.Start{Dir: p.folder, Store: p.address, Address: r.address}, &at)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	r.process, r.at, r.user = started, at, p.newUser(at["users"], p.key, clusterName, p.pair.Cert)
	return err
}

// forward forwards connections of agents to a replica that accepts them, at random, as a load balancer does.
func (p *plane) forward() {
	for {
		here, err := p.front.Accept()
		if err != nil {
			return
		}
		go func() {
			there, err := p.connect()
			if err != nil {
				_ = here.Close()
				return
			}
			relay.Pipe(relay.Of(here), relay.Of(there))
		}()
	}
}

// connect connects to a replica.
func (p *plane) connect() (c net.Conn, err error) {
	for _, i := range rand.Perm(len(p.all)) {
		p.mutex.Lock()
		to := p.all[i].at["agents"]
		p.mutex.Unlock()
		if c, err = new(net.Dialer).DialContext(context.Background(), "tcp", to); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// steady waits until requests of a user are answered, or the agent has ended.
func (p *plane) steady(u *user) error {
	return wait.Until(p.ctx, patience, "requests are answered", func() error {
		if err := p.agent.Running(); err != nil {
			return wait.Final(err)
		}
		return u.steadily(p.ctx)
	})
}

func (p *plane) close() {
	p.agent.Kill()
	if p.front != nil {
		_ = p.front.Close()
	}
	for _, r := range p.all {
		r.process.Kill()
	}
	p.store.Kill()
}

// replicas measures requests through replicas, while so many of those with the agent's session are killed.
func (w *world) replicas(requests, kills int) (out Replicas, err error) {
	p, err := w.newPlane()
	defer p.close()
	if err != nil {
		return out, err
	}
	for _, r := range p.all {
		if err := p.steady(r.user); err != nil {
			return out, err
		}
	}
	var mu sync.Mutex
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for range requests / atOnce {
				err := p.all[rand.IntN(len(p.all))].user.get(w.ctx)
				mu.Lock()
				if out.Requests++; err != nil {
					out.Failed++
					out.notes = append(out.notes, err)
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	for range kills {
		if err := p.kill(&out); err != nil {
			return out, err
		}
	}
	return out, p.agent.Running()
}

// kill kills the replica with the session under load, and starts it again.
func (p *plane) kill(out *Replicas) error {
	e, err := p.registry.Get(p.ctx, registry.Cluster{Organisation: organisation, Name: clusterName})
	if err != nil {
		return err
	}
	var victim *replica
	var others []*user
	for _, r := range p.all {
		if r.address == e.Replica {
			victim = r
		} else {
			others = append(others, r.user)
		}
	}
	if victim == nil {
		return fmt.Errorf("the session is at replica %q, which is none", e.Replica)
	}
	var mu sync.Mutex
	var last time.Time // a request failed
	var senders sync.WaitGroup
	stop := make(chan struct{})
	for i := range atOnce {
		senders.Go(func() {
			ticker := time.NewTicker(everyKilled)
			defer ticker.Stop()
			for {
				began := time.Now()
				err := others[i%len(others)].get(p.ctx)
				mu.Lock()
				if out.Longest = max(out.Longest, time.Since(began)); err != nil {
					last = time.Now()
					out.notes = append(out.notes, err)
				}
				mu.Unlock()
				select {
				case <-ticker.C:
				case <-stop:
					return
				}
			}
		})
	}
	err = p.pause(time.Second)
	victim.process.Kill()
	killed := time.Now()
	err = errors.Join(err, wait.For(p.ctx, killedFor))
	close(stop)
	senders.Wait()
	out.Kills++
	out.Failures = append(out.Failures, max(0, last.Sub(killed)))
	if err := errors.Join(err, p.start(victim)); err != nil {
		return err
	}
	return p.steady(victim.user)
}
