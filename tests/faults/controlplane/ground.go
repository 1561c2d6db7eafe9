package controlplane

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/link/deliveries"
)

// auditPolicy has the API server log the writes of sandboxes with their results.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources: [{group: signadot.com, resources: [signadotsandboxes]}]
- level: None
`

// ground is an API server with an audit log and an agent, which connects to a Front.
type ground struct {
	// audit is the audit log.
	dir, audit string
	client     client.Client
	front      *deliveries.Front
	end        func() error
}

func newGround(ctx context.Context, scratch string, log io.Writer) (g *ground, err error) {
	ctrl.SetLogger(logr.Discard())
	g = &ground{}
	if g.dir, err = os.MkdirTemp(scratch, "deliver-"); err != nil {
		return nil, err
	}
	g.audit = filepath.Join(g.dir, "audit.log")
	policy := filepath.Join(g.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	// The network namespace here has no route to others.
	api, err := apiserver.Start("advertise-address=127.0.0.1", "endpoint-reconciler-type=none", "audit-policy-file="+policy, "audit-log-path="+g.audit, "audit-log-mode=blocking-strict")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, api.Stop())
		}
	}()
	if g.client, err = api.Client(); err != nil {
		return nil, err
	}
	if err := errors.Join(deliveries.Prepare(ctx, api), deliveries.Files(g.dir)); err != nil {
		return nil, err
	}
	if g.front, err = deliveries.NewFront(); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	agent := deliveries.Agent{Access: api.Config, Dir: g.dir, Address: g.front.Address(), Token: deliveries.Token(cluster), Log: log}
	go func() { ended <- agent.Run(running) }()
	g.end = func() error {
		stop()
		return errors.Join(<-ended, g.front.Close(), api.Stop(), os.RemoveAll(g.dir))
	}
	return g, nil
}

// write is a write in the audit log.
type write struct {
	Verb           string
	ResponseStatus struct{ Code int }
	ResponseObject struct {
		Metadata struct {
			Name, UID, ResourceVersion string
			Annotations                map[string]string
		}
	}
}

// numbers are those of the version and the generation.
func (w write) numbers() (version, generation int64) {
	version, _ = strconv.ParseInt(w.ResponseObject.Metadata.ResourceVersion, 10, 64)                            // 0: none
	generation, _ = strconv.ParseInt(w.ResponseObject.Metadata.Annotations[crdv1.AnnotationGeneration], 10, 64) // 0: none
	return version, generation
}

// logged returns the accepted writes of objects in an audit log in their order, by their versions. Deletions are not among them.
func logged(log string) (all []write, err error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var w write
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return nil, fmt.Errorf("the audit log: %w", err)
		}
		if w.ResponseStatus.Code < 300 && w.Verb != "delete" {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b write) int {
		one, _ := a.numbers()
		other, _ := b.numbers()
		return cmp.Compare(one, other)
	})
	return all, lines.Err()
}

// olderWrites counts the accepted writes in an audit log, and returns those with a lower generation than one of the
// same name before.
func olderWrites(log string) (n int, older []string, err error) {
	all, err := logged(log)
	last := map[string]int64{}
	for _, w := range all {
		name := w.ResponseObject.Metadata.Name
		version, generation := w.numbers()
		if generation < last[name] {
			older = append(older, fmt.Sprintf("%s: generation %d after %d, in version %d", name, generation, last[name], version))
		}
		last[name] = max(last[name], generation)
	}
	return len(all), older, err
}
