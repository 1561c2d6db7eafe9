package restarts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// Outcome is what became of the requests of one kind of caller in one restart, without a
// sidecar and with one.
type Outcome struct {
	// App is the application's name.
	App string
	// Keyed: the requests carry a routing key, and it is the fork that restarts.
	Keyed bool
	// Caller is h1, h2 or new.
	Caller       string
	Bare, Meshed *traffic.Ledger
}

// Lost returns how many requests were not answered by the side that they were for.
func Lost(l *traffic.Ledger) int { return l.FailedCount + l.WrongCount }

// settle is how long requests are sent before and after a restart.
const settle = 2 * time.Second

// Restart restarts the bare workload and beside it the meshed one or, keyed, its fork,
// under load, and returns when no pod of before is left. An error means that a restart
// could not be done, or that the sandbox is not ready afterwards.
func Restart(ctx context.Context, a App, keyed bool) ([]Outcome, error) {
	bare, err := demo.ServiceURL(ctx, Namespace, a.bare(), 80)
	if err != nil {
		return nil, err
	}
	meshed, err := demo.ServiceURL(ctx, Namespace, a.meshed(), 80)
	if err != nil {
		return nil, err
	}
	restarted, want := a.meshed(), traffic.Want{Side: traffic.Baseline}
	if keyed {
		want = traffic.Want{Key: a.key(), Side: traffic.Fork}
		if restarted, err = a.fork(ctx); err != nil {
			return nil, err
		}
	}
	ledgers, err := underLoad(ctx, map[string]traffic.Want{bare: {Side: traffic.Baseline}, meshed: want}, func() error {
		time.Sleep(settle)
		if err := rollout(ctx, a.bare(), restarted); err != nil {
			return err
		}
		time.Sleep(settle)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for _, caller := range []string{"h1", "h2", "new"} {
		outcomes = append(outcomes, Outcome{App: a.Name, Keyed: keyed, Caller: caller, Bare: ledgers[bare][caller], Meshed: ledgers[meshed][caller]})
	}
	return outcomes, a.sandboxReady(ctx)
}

// End deletes the sandbox under requests with its key, creates it again, and returns the outcome
// of the requests by kind of caller: the fork answers them and then the baseline, so the result
// is how many were not answered. An error is as with Restart.
func End(ctx context.Context, a App) (map[string]*traffic.Ledger, error) {
	meshed, err := demo.ServiceURL(ctx, Namespace, a.meshed(), 80)
	if err != nil {
		return nil, err
	}
	ledgers, err := underLoad(ctx, map[string]traffic.Want{meshed: {Key: a.key(), Side: traffic.Fork}}, func() error {
		time.Sleep(settle)
		if _, err := demo.Kubectl(ctx, "", "delete", "signadotsandbox", a.key(), "--timeout=90s"); err != nil {
			return err
		}
		time.Sleep(2 * settle)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ledgers[meshed], a.makeSandbox(ctx)
}

// rollout restarts Deployments at the same time and waits until all pods of before are
// gone.
func rollout(ctx context.Context, names ...string) error {
	before, err := pods(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := demo.Kubectl(ctx, "", "rollout", "restart", "deployment/"+name, "-n", Namespace); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := demo.Kubectl(ctx, "", "rollout", "status", "deployment/"+name, "-n", Namespace, "--timeout=240s"); err != nil {
			return err
		}
	}
	return wait.Until(ctx, 2*time.Minute, "the pods of before the restart go", func() error {
		now, err := pods(ctx, names)
		left := slices.DeleteFunc(now, func(pod string) bool { return !slices.Contains(before, pod) })
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v are left", left)
		}
		return err
	})
}

// pods returns the names of the pods of Deployments: the Deployment's, a hash and a word,
// with dashes between.
func pods(ctx context.Context, deployments []string) ([]string, error) {
	out, err := demo.Kubectl(ctx, "", "get", "pods", "-n", Namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(out), func(pod string) bool {
		parts := strings.Split(pod, "-")
		return len(parts) < 3 || !slices.Contains(deployments, strings.Join(parts[:len(parts)-2], "-"))
	}), nil
}
