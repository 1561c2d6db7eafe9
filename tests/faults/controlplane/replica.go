package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/tests/link/deliveries"
)

// replicaRole is that of the process of a replica, and replicaVariable has its place.
const (
	replicaRole     = "controlplane-replica"
	replicaVariable = "SWITCHYARD_REPLICA"
)

// Sandboxes that the writers of all replicas write: each has some of its own.
const (
	writersEach = 4
	namesEach   = 5
	// lifetime is after how many writes a sandbox is deleted.
	lifetime = 12
)

// place is where a replica runs.
type place struct {
	Dir, URL string
	// Life is the number of the process.
	Life int
}

// Replicate is the process of a replica: it serves agents, delivers, and writes sandboxes. It prints its address, and
// each acknowledged write as NAME GENERATION.
func Replicate(out io.Writer) error {
	var p place
	if err := json.Unmarshal([]byte(os.Getenv(replicaVariable)), &p); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	in, err := deliveries.Open(ctx, "", p.URL)
	if err != nil {
		return err
	}
	r, err := deliveries.NewReplica(p.Dir, in, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "at", r.Address); err != nil {
		return err
	}
	failed := make([]error, writersEach+1)
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		failed[writersEach] = r.Run(ctx)
	})
	for w := range writersEach {
		if p.Life == writeNothing {
			break
		}
		all.Go(func() {
			defer stop()
			for n := 0; failed[w] == nil && ctx.Err() == nil; n++ {
				failed[w] = p.write(ctx, in, out, fmt.Sprintf("o%d-%d", w, n%namesEach), n)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// write writes or deletes a sandbox. Other replicas write the same one.
func (p place) write(ctx context.Context, in *store.Store, out io.Writer, name string, n int) error {
	id := fmt.Sprintf("%d-%s-%d", p.Life, name, n)
	ev := model.Event{Org: deliveries.Organisation, ID: id, Type: "write", At: time.Now(), By: author.Principal, Role: author.Role}
	if n/namesEach%lifetime == lifetime-1 {
		if err := in.DeleteSandbox(ctx, deliveries.Organisation, name, false, time.Now(), ev); !errors.Is(err, model.ErrNotFound) {
			return err
		}
		return nil
	}
	row, err := in.PutSandbox(ctx, sandboxRow(name, id), ev)
	switch {
	case errors.Is(err, model.ErrDeleting):
		time.Sleep(time.Millisecond)
		return nil
	case err != nil:
		return err
	}
	_, err = fmt.Fprintln(out, name, row.Generation) // one write, which is not torn in a pipe
	return err
}

var author = model.Author{Principal: model.Principal{Kind: model.KindUser, ID: "u1", Name: "jo"}, Role: model.RoleMember}

// sandboxRow is a sandbox with a description. A new one has a routing key of it.
func sandboxRow(name, description string) model.Sandbox {
	now := time.Now().UTC().Truncate(time.Microsecond)
	spec := fmt.Sprintf(`{"cluster":%q,"description":%q,"virtual":[{"name":"v","workload":{"kind":"Deployment","namespace":"shop","name":"cart"}}]}`, cluster, description)
	return model.Sandbox{
		Org: deliveries.Organisation, Name: name, Cluster: cluster, RoutingKey: "k" + strings.ReplaceAll(description, "-", "x"), Spec: json.RawMessage(spec), CreatedAt: now, UpdatedAt: now, Author: author,
	}
}
