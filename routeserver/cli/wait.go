package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
)

func (a *app) waitCommand() *cobra.Command {
	req := &routingv1.WaitRequest{}
	var at string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait",
		Short: "Wait until every sidecar has acknowledged",
		Long: `Wait until every sidecar that can see a routing key (without --key: any sidecar)
has acknowledged a position of the log: what was recorded when the command was
given, or --position. It counts the sidecars that are connected, over all route
servers, and those of the pods that are named with --pod. Of a key that has no
rule yet it waits for the first one; the operator records what kubectl has applied
a moment later.

Exit code 0 when they have, 1 when the time is over and they have not; then it
says which. It is 0 also where no sidecar is connected that could have to, which
it says: then requests reach no sandbox, unless a mesh routes them. That a sandbox
is there and routed is for kubectl wait --for=condition=Ready signadotsandbox/NAME.`,
		Example: `  kubectl apply -f sandbox.yaml && switchyard wait --key k7q2m9x4v1tz8 --timeout 1m`,
		Args:    cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&req.RoutingKey, "key", "", "the sidecars of baselines that this routing key has, or had, a rule for")
	f.StringVar(&at, "position", "", "the `position` to be acknowledged; the end of the log")
	f.StringArrayVar(&req.Pods, "pod", nil, "a pod, as `namespace/name`, whose sidecar has to be one of them; may be repeated")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait, from 1s to 5m")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if timeout < time.Second || timeout > 300*time.Second {
			return usage("--timeout is from 1s to 5m, not %s", timeout)
		}
		if req.Position, err = position("position", at); err != nil {
			return err
		}
		client, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout+a.flags.patience)
		defer cancel()
		got, err := waitFor(ctx, client, req, timeout)
		if err != nil {
			return err
		}
		if err := print(a, got, func(w *routingv1.WaitResponse) string { return a.waitText(w, req.GetRoutingKey() != "") }); err != nil {
			return err
		}
		if !got.GetConverged() {
			return errNo
		}
		return nil
	}
	return c
}

// A route server keeps a caller that it does not know waiting for half a minute at most,
// and answers only so many at a time.
const oneWait, nextTry = 30 * time.Second, time.Second

// waitFor asks again and again until all have acknowledged or the time is over. Whoever
// has to acknowledge the end of the log has to in each round what the table had at the
// end of the first: in a cluster in which much changes nobody ever has the newest.
func waitFor(ctx context.Context, client routingv1.RoutingClient, req *routingv1.WaitRequest, timeout time.Duration) (*routingv1.WaitResponse, error) {
	pinned := false
	for end := time.Now().Add(timeout); ; {
		left := max(time.Second, time.Until(end).Round(time.Second))
		req.TimeoutSeconds = int32(min(left, oneWait) / time.Second)
		got, err := client.Wait(ctx, req)
		code := status.Code(err)
		began := pinned && reasonOf(err) == failure.ReasonOtherEpoch
		switch {
		case got.GetConverged(), time.Until(end) < time.Second:
			return got, err
		case err == nil:
			if req.GetPosition() == nil && concernsSomebody(got) {
				req.Position, pinned = got.GetVersion().GetPosition(), true
			}
			continue
		case began:
			req.Position, pinned = nil, false
		case code != codes.ResourceExhausted && code != codes.DeadlineExceeded:
			return got, err
		}
		select {
		case <-time.After(nextTry):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// concernsSomebody reports whether the key that was waited for had a rule: before there
// is one nobody knows at which position it will be.
func concernsSomebody(w *routingv1.WaitResponse) bool {
	return w.GetSidecars() > 0 || len(w.GetLagging()) > 0 || len(w.GetSilent()) > 0
}

// waitText tells the answer; keyed: it is about one routing key.
func (a *app) waitText(w *routingv1.WaitResponse, keyed bool) string {
	if w.GetConverged() {
		return fmt.Sprintf("%s: %s acknowledged; the table is %s\n", a.paint(green, "converged"), manyHave(int(w.GetSidecars())), a.versionLine(w.GetVersion())) +
			a.noneRoutes(w, keyed)
	}
	missing := missingLines(a, w.GetMissing())
	if w.GetSidecars() == 0 && len(w.GetSilent()) == 0 && missing == "" {
		return fmt.Sprintf("%s: no rule of this key was recorded; is it spelt as in the sandbox, and is the sandbox ready? The table is %s\n", a.paint(red, "not converged"), a.versionLine(w.GetVersion()))
	}
	return sidecarRows(w.GetLagging()) + silentLines(a, w.GetSilent()) + missing +
		fmt.Sprintf("%s: %d of %s have not acknowledged; the table is %s\n", a.paint(red, "not converged"), len(w.GetLagging())+len(w.GetMissing()), many(int(w.GetSidecars())+len(w.GetMissing()), "sidecar"), a.versionLine(w.GetVersion()))
}

// noneRoutes warns of an answer that is yes because there is nobody to wait for.
func (a *app) noneRoutes(w *routingv1.WaitResponse, keyed bool) string {
	if w.GetSidecars() > 0 {
		return ""
	}
	which, what := "connected to a route server", "requests"
	if keyed {
		which, what = "connected of any baseline that has, or had, a rule of this key", "requests with it"
	}
	return a.paint(yellow, fmt.Sprintf("no sidecar is %s: where there is none, %s go to the baseline and to no sandbox, unless Istio or the Gateway API routes them; see switchyard coverage, and switchyard explain", which, what)) + "\n"
}

func missingLines(a *app, pods []string) string {
	out := ""
	for _, pod := range pods {
		out += a.paint(yellow, fmt.Sprintf("the sidecar of pod %s is not connected to any route server", pod)) + "\n"
	}
	return out
}

func manyHave(n int) string {
	switch n {
	case 0:
		return "no sidecar is concerned, so nothing is to be"
	case 1:
		return "1 sidecar has"
	}
	return fmt.Sprintf("all %d sidecars have", n)
}
