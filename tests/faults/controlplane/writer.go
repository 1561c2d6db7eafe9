package controlplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/workflows/spec"
)

// writers is how many writers a process has.
const writers = 4

// org and cluster have all objects here; plugin is that of their resources.
const (
	org     = "acme"
	cluster = "demo"
)

var plugin = spec.PluginName{Bare: "db", Version: "1.0.0"}

// site is where a store is, for a process that opens it.
type site struct {
	Path, PostgreSQL string
	// Life is the number of the process.
	Life int
}

func (s site) open(ctx context.Context) (*store.Store, error) {
	keys, err := seal.Parse("key " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, store.Config{Path: s.Path, PostgreSQL: s.PostgreSQL, Keys: keys})
}

// fill creates what the objects refer to.
func (s site) fill(ctx context.Context) error {
	in, err := s.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(
		in.CreateOrganisation(ctx, model.Organisation{Name: org}, model.Event{Org: org, ID: "org", Type: "org.create"}),
		in.CreateCluster(ctx, model.Cluster{Org: org, Name: cluster}, model.Event{ID: "cluster", Type: "cluster.create"}),
		in.CreatePlugin(ctx, model.Plugin{Org: org, Name: plugin}, model.Event{ID: "plugin", Type: "plugin.apply"}),
		in.Close(),
	)
}

// step is a write, which its event describes.
type step struct {
	Life, Writer, N int
	Do, Name        string
}

// The writes of an object, in this order.
var cycle = []string{apply, apply, apply, secret, apply, bury, finish}

const (
	apply  = "apply"
	bury   = "delete"
	finish = "finish"
	secret = "secret"
)

func stepOf(life, writer, n int) step {
	s := step{Life: life, Writer: writer, N: n, Do: cycle[n%len(cycle)]}
	s.Name = fmt.Sprintf("o%d-%d-%d", life, writer, n/len(cycle))
	if s.Do == secret {
		s.Name = fmt.Sprintf("s%d-%d", life, writer)
	}
	return s
}

// id is that of the event.
func (s step) id() string { return fmt.Sprintf("%d-%d-%d", s.Life, s.Writer, s.N) }

// plugins are those of the sandbox after the step: every other one has a resource.
func (s step) plugins() map[string]spec.PluginName {
	if s.N%2 == 0 {
		return nil
	}
	return map[string]spec.PluginName{"store": plugin}
}

func (s step) event() (model.Event, error) {
	data, err := json.Marshal(s)
	return model.Event{Org: org, ID: s.id(), Type: "write", At: time.Unix(int64(s.N)+1, 0), Data: data}, err
}

// write does the step.
func (s step) write(ctx context.Context, to *store.Store) error {
	ev, err := s.event()
	if err != nil {
		return err
	}
	switch s.Do {
	case apply:
		_, err = to.PutSandbox(ctx, model.Sandbox{
			Org: org, Name: s.Name, Cluster: cluster, RoutingKey: s.id(), Spec: json.RawMessage(fmt.Sprint(s.N)), Plugins: s.plugins(),
		}, ev)
		return err
	case bury:
		return to.DeleteSandbox(ctx, org, s.Name, false, time.Unix(1, 0), ev)
	case finish:
		o, err := to.Sandbox(ctx, org, s.Name)
		if err != nil {
			return err
		}
		done, err := to.Finish(ctx, store.Sandbox, org, s.Name, cluster, o.Generation, ev)
		if err == nil && !done {
			err = fmt.Errorf("sandbox %s is no tombstone", s.Name)
		}
		return err
	}
	v := model.Secret{Org: org, Name: s.Name, Value: fmt.Sprint(s.N)}
	if err := to.UpdateSecret(ctx, v, ev); !errors.Is(err, model.ErrNotFound) {
		return err
	}
	return to.CreateSecret(ctx, v, ev)
}

// role is that of the process that writes, and variable has its site.
const (
	role     = "controlplane-writer"
	variable = "SWITCHYARD_STORE_SITE"
)

// Write is the process that writes: it writes the ID of each acknowledged step to a writer, until a write
// fails or it is killed.
func Write(acks io.Writer) error {
	var s site
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &s); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	to, err := s.open(ctx)
	if err != nil {
		return err
	}
	failed := make([]error, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			defer stop()
			for n := 0; failed[w] == nil; n++ {
				one := stepOf(s.Life, w, n)
				if failed[w] = one.write(ctx, to); failed[w] == nil {
					_, failed[w] = fmt.Fprintln(acks, one.id()) // one write, which is not torn in a pipe
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
