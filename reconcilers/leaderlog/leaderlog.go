// Package leaderlog logs, on every replica of the manager, which pod is the leader.
package leaderlog

import (
	"context"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// period is how often a replica reads the lease.
const period = 2 * time.Second

// Log logs, on every replica, which pod is the leader, whenever that changes: the log of any
// replica names the one to read.
type Log struct {
	// Reader reads the lease.
	Reader client.Reader
	// Lease is the lease of the election.
	Lease client.ObjectKey
	// Logger takes the lines.
	Logger *slog.Logger
}

// NeedLeaderElection returns false: it runs on every replica.
func (Log) NeedLeaderElection() bool { return false }

// Start polls the lease until ctx ends.
func (l Log) Start(ctx context.Context) error {
	last := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		var lease coordinationv1.Lease
		if err := l.Reader.Get(ctx, l.Lease, &lease); err != nil {
			return // The election, which needs the lease, logs the error.
		}
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && *holder != last {
			last = *holder
			l.Logger.Info("the controllers run on the leader", "leader", podOf(last), "lease", l.Lease.String())
		}
	}, period)
	return nil
}

// podOf returns the name of the pod that holds the lease: its identity is the host name, which is the
// name of the pod, followed by an underscore and a random part.
func podOf(identity string) string {
	if i := strings.LastIndexByte(identity, '_'); i >= 0 {
		return identity[:i]
	}
	return identity
}
