package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tools/cluster/internal/kube"
	"switchyard.dev/tools/cluster/internal/netns"
	"switchyard.dev/tools/cluster/internal/node"
)

// Times after which a part that does not answer is given up. The first is for one
// that ran before this command came: it is restarted then.
const (
	patienceWithOld = 30 * time.Second
	patienceWithNew = 2 * time.Minute
	askAgain        = 100 * time.Millisecond
)

// starter starts parts and waits for them.
type starter struct {
	cluster Cluster
	client  *kube.Client
	note    func(format string, args ...any)
}

// wave brings up all parts of one wave, together.
func (s starter) wave(ctx context.Context, wave int) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range node.Parts(s.cluster.Node) {
		if p.Wave == wave {
			group.Go(func() error { return s.part(ctx, p) })
		}
	}
	return group.Wait()
}

// part makes one part run well: it keeps one that does, restarts one that runs
// and does not answer, and starts one that does not run.
func (s starter) part(ctx context.Context, p node.Part) error {
	n := s.cluster.Node
	if old, ok := node.Find(n, p.Name); ok {
		err := s.await(ctx, p, patienceWithOld, nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.note("restarting %s (process %d): %v", p.Name, old.PID, err)
	}
	if err := s.cluster.endStrays(ctx, p.Name); err != nil {
		return err
	}
	ended, err := node.Start(n, p)
	if err != nil {
		return err
	}
	err = s.await(ctx, p, patienceWithNew, ended)
	if ctx.Err() != nil {
		return fmt.Errorf("starting %s: %w", p.Name, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("%w\nits log, %s, ends with:\n%s", err, n.Log(p.Name), node.LogTail(n, p.Name, 8))
	}
	return nil
}

// await polls a part until it is healthy. ended, when not nil, receives the error of a part that
// terminated.
func (s starter) await(ctx context.Context, p node.Part, patience time.Duration, ended <-chan error) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := node.Probe(ctx, s.cluster.Node, s.client.HTTP, p)
		if err == nil {
			return nil
		}
		select {
		case how := <-ended:
			if how == nil {
				how = errors.New("exit status 0")
			}
			return fmt.Errorf("%s ended by itself: %w", p.Name, how)
		case <-ctx.Done():
			if whole.Err() != nil {
				return whole.Err()
			}
			return fmt.Errorf("%s is not well after %v: %w", p.Name, patience, err)
		case <-time.After(askAgain):
		}
		if ended != nil {
			continue
		}
		if _, ok := node.Find(s.cluster.Node, p.Name); !ok {
			return fmt.Errorf("%s: %w", p.Name, errNotRunning)
		}
	}
}

// ready waits until a pod can be started: the node is ready, the default service
// account is there, and the cluster's names resolve at the address that pods use.
func (s starter) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patienceWithNew)
	defer cancel()
	n := s.cluster.Node
	questions := []func() error{
		func() error { _, err := s.client.NodeReady(ctx, n.Name); return err },
		func() error { return s.client.DefaultAccount(ctx) },
		func() error { return s.cluster.resolves(ctx) },
	}
	for _, ask := range questions {
		for {
			err := ask()
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the node did not become ready in %v: %w", patienceWithNew, err)
			case <-time.After(askAgain):
			}
		}
	}
	return nil
}

// resolves asks the cluster's DNS server, through its Service, for the API server.
func (c Cluster) resolves(ctx context.Context) error {
	server := net.JoinHostPort(c.Node.DNSServiceIP().String(), "53")
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		d := net.Dialer{FallbackDelay: -1}
		err = netns.Do(c.Node.NetNS(), func() error { conn, err = d.DialContext(ctx, network, server); return err })
		return conn, err
	}}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err != nil {
		return fmt.Errorf("asking the cluster's DNS server: %w", err)
	}
	if want := c.Node.APIServiceIP().String(); len(found) != 1 || found[0] != want {
		return fmt.Errorf("the cluster's DNS server resolves the API server to %v, not to %s", found, want)
	}
	return nil
}

// endStrays ends processes of this program in the node's network namespace, so
// that a new one finds its ports free.
func (c Cluster) endStrays(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		strays, err := c.processes(program)
		if err != nil || len(strays) == 0 {
			return err
		}
		for _, pid := range strays {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("ending an old %s: %w", program, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("an old %s (process %d) does not end, even when killed", program, strays[0])
		case <-time.After(askAgain):
		}
	}
}
