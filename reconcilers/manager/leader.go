package manager

import (
	"context"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaderPeriod is how often a replica looks who leads.
const leaderPeriod = 2 * time.Second

// leaderLog logs, on every replica, which pod leads, whenever that changes. People who
// look into the log of some replica learn from it which one to look into.
type leaderLog struct {
	reader client.Reader
	lease  client.ObjectKey
	logger *slog.Logger
}

// NeedLeaderElection tells controller-runtime that this runs on every replica.
func (leaderLog) NeedLeaderElection() bool { return false }

// Start looks at the lease until ctx ends.
func (l leaderLog) Start(ctx context.Context) error {
	last := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		var lease coordinationv1.Lease
		if err := l.reader.Get(ctx, l.lease, &lease); err != nil {
			return // The election, which needs the lease, says so.
		}
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && *holder != last {
			last = *holder
			l.logger.Info("the controllers run on the leader", "leader", podOf(last), "lease", l.lease.String())
		}
	}, leaderPeriod)
	return nil
}

// podOf returns the name of the pod that holds the lease: its identity is the host's
// name, which is that of the pod, and something random behind an underscore.
func podOf(identity string) string {
	if i := strings.LastIndexByte(identity, '_'); i >= 0 {
		return identity[:i]
	}
	return identity
}
