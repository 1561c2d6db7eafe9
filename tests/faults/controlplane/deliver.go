package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/postgres"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/wait"
)

// Deliver has two replicas at a time write sandboxes and deliver them to an API server through an agent, until enough
// writes were acknowledged. In the meantime replicas are killed, and the connection of the agent is cut.
type Deliver struct {
	Writes int
	Seed   uint64
	// Scratch is a directory to work in; Log takes what the processes log.
	Scratch string
	Log     io.Writer
}

// Delivered are the results.
type Delivered struct {
	// Acked counts the acknowledged writes, Kills the replicas that were killed, and Cuts those of the connection.
	Acked, Kills, Cuts int
	// Writes counts those that the API server has accepted, by its audit log.
	Writes int
	// Lost are the sandboxes of which the API server does not have the last acknowledged generation in the end, and
	// Older the writes with a lower generation than one before.
	Lost, Older []string
}

const (
	// killEvery is how many writes are acknowledged between two kills or cuts, at most.
	killEvery = 400
	longest   = 1500 * time.Millisecond
	patience  = 2 * time.Minute
)

// delivering is a Deliver that runs.
type delivering struct {
	Deliver
	*ground
	store *store.Store
	url   string
	lives int

	mu    sync.Mutex
	acks  int
	acked map[string]int64 // the highest generation, by name
}

// replica is a process.
type replica struct {
	program *program.Program
	address string
	out     *os.File
	read    chan struct{} // closed once all acknowledgements were read
}

// Do runs it.
func (r Deliver) Do(ctx context.Context) (out Delivered, err error) {
	d := &delivering{Deliver: r, acked: map[string]int64{}}
	database, err := postgres.Temporary(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, database.Remove()) }()
	if d.url, err = database.Create(ctx, "store", ""); err != nil {
		return out, err
	}
	if d.store, err = deliveries.Open(ctx, "", d.url); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	if err := deliveries.Fill(ctx, d.store, cluster); err != nil {
		return out, err
	}
	if d.ground, err = newGround(ctx, r.Scratch, r.Log); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	if out, err = d.disturb(ctx); err != nil {
		return out, fmt.Errorf("seed %d: %w", r.Seed, err)
	}
	out.Writes, out.Older, err = olderWrites(d.audit)
	return out, err
}

// disturb runs the replicas, kills them and cuts their connection, and checks the objects in the end.
func (d *delivering) disturb(ctx context.Context) (out Delivered, err error) {
	random := rand.New(rand.NewPCG(d.Seed, 1))
	var both [2]*replica
	for i := range both {
		if both[i], err = d.start(); err != nil {
			return out, err
		}
		defer func() { both[i].end() }()
	}
	d.front.Set(both[0].address, both[1].address)
	for d.count() < d.Writes {
		if err := d.until(ctx, d.count()+1+random.IntN(killEvery)); err != nil {
			return out, err
		}
		if n := out.Cuts + out.Kills; n == 1 || n > 1 && random.IntN(2) == 0 {
			out.Cuts++
			d.front.Cut()
			time.Sleep(time.Duration(random.Int64N(int64(longest))))
			d.front.Mend()
			continue
		}
		out.Kills++
		i := random.IntN(2)
		both[i].end()
		if both[i], err = d.start(); err != nil {
			return out, err
		}
		d.front.Set(both[1-i].address, both[i].address)
	}
	both[0].end()
	both[1].end()
	if both[0], err = d.start(writeNothing); err != nil { // delivers the rest
		return out, err
	}
	d.front.Set(both[0].address)
	out.Acked = d.count()
	out.Lost, err = d.lost(ctx)
	return out, err
}

// writeNothing is the life of a replica without writers.
const writeNothing = -1

// start starts a replica.
func (d *delivering) start(life ...int) (*replica, error) {
	d.lives++
	text, err := json.Marshal(place{Dir: d.dir, URL: d.url, Life: append(life, d.lives)[0]})
	if err != nil {
		return nil, err
	}
	cmd, err := process.Command(replicaRole, replicaVariable+"="+string(text))
	if err != nil {
		return nil, err
	}
	out, into, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = into, d.Log
	r := &replica{out: out, read: make(chan struct{})}
	r.program, err = program.Start("", "replica", cmd, nil)
	_ = into.Close() // the child has its own
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, fmt.Errorf("the replica has ended by itself: %w", r.program.Running())
	}
	r.address = strings.TrimPrefix(lines.Text(), "at ")
	go func() {
		defer close(r.read)
		for lines.Scan() {
			d.ack(lines.Text())
		}
	}()
	return r, nil
}

// end kills the replica.
func (r *replica) end() {
	r.program.Kill()
	<-r.read
	_ = r.out.Close() // it was read
}

func (d *delivering) ack(line string) {
	name, text, _ := strings.Cut(line, " ")
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return // the line was torn by the kill
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acks++
	d.acked[name] = max(d.acked[name], generation)
}

func (d *delivering) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acks
}

// until waits for a number of acknowledged writes.
func (d *delivering) until(ctx context.Context, n int) error {
	return wait.Until(ctx, patience, fmt.Sprintf("%d acknowledged writes", n), func() error {
		if is := d.count(); is < n {
			return fmt.Errorf("there are %d", is)
		}
		return nil
	})
}

// lost writes each sandbox once more, and waits until the API server has the generations of the store. It returns the
// sandboxes that it does not have, and those of which the store has lost an acknowledged write.
func (d *delivering) lost(ctx context.Context) (lost []string, err error) {
	for name, acked := range d.acked {
		var row model.Sandbox
		err := wait.Until(ctx, patience, "a last write of "+name, func() (err error) {
			ev := model.Event{Org: deliveries.Organisation, ID: "last-" + name, Type: "write", At: time.Now(), By: author.Principal, Role: author.Role}
			row, err = d.store.PutSandbox(ctx, sandboxRow(name, "last-"+name), ev)
			return err
		})
		if err != nil {
			return nil, err
		}
		if row.Generation <= acked {
			lost = append(lost, fmt.Sprintf("%s: generation %d after %d was acknowledged", name, row.Generation, acked))
		}
		var has string
		err = wait.Until(ctx, patience, "generation of "+name, func() error {
			o := &crdv1.SignadotSandbox{}
			if err := d.client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
				return err
			}
			if has = o.Annotations[crdv1.AnnotationGeneration]; has != strconv.FormatInt(row.Generation, 10) {
				return fmt.Errorf("%s, not %d", has, row.Generation)
			}
			return nil
		})
		if err != nil {
			lost = append(lost, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return lost, ctx.Err()
}
