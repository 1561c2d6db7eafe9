// Package sidecars contains the commands that show the state of sidecars.
package sidecars

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// Wait returns the command that waits until every sidecar has acknowledged.
func Wait(s *command.Session) *cobra.Command {
	req := &routingv1.WaitRequest{}
	var at string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait",
		Short: "Wait until every sidecar has acknowledged",
		Long: `Wait until every sidecar that can see a routing key (without --key: any sidecar)
has acknowledged a position of the log: --position, by default the end of the log
when the command starts. It counts the sidecars that are connected to any route
server, and those of the pods in --pod. If the key has no rule yet, it waits for the
first one; the operator records an applied object a moment after kubectl returns.

Exit code 0 if all have acknowledged; 1 on timeout, with the sidecars that have not.
It is also 1 if a workload that the key routes has no connected sidecar, unless that
workload needs none: it has no Service or no pods, or a mesh routes its requests.
Your kubeconfig is used to find that out. To wait until a sandbox is ready, use kubectl wait --for=condition=Ready signadotsandbox/NAME.`,
		Example: `  kubectl apply -f sandbox.yaml && switchyard wait --key k7q2m9x4v1tz8 --timeout 1m`,
		Args:    cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&req.RoutingKey, "key", "", "only sidecars of baselines with a current or earlier rule for this routing key")
	f.StringVar(&at, "position", "", "the `position` to be acknowledged (default: the end of the log)")
	f.StringArrayVar(&req.Pods, "pod", nil, "a pod, as `namespace/name`: its sidecar must be among them; repeatable")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "timeout, from 1s to 5m")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if timeout < time.Second || timeout > 300*time.Second {
			return exit.Usage.Errorf("--timeout is from 1s to 5m, not %s", timeout)
		}
		if req.Position, err = parse.Position("position", at); err != nil {
			return err
		}
		client, err := s.Connect(c.Context())
		if err != nil {
			return err
		}
		ctx, cancel := s.WaitPatiently(c.Context(), timeout)
		defer cancel()
		var lacking []show.Unconnected
		got, err := waitFor(ctx, client, req, timeout, func(without []*routingv1.Workload) []*routingv1.Workload {
			lacking = needing(ctx, s, without)
			return workloadsOf(lacking)
		})
		if err != nil {
			return err
		}
		text := func(w *routingv1.WaitResponse) string { return s.Show.Wait(w, req.GetRoutingKey() != "", lacking) }
		if err := show.Answer(s.Show, got, text); err != nil {
			return err
		}
		return exit.No.Unless(got.GetConverged())
	}
	return c
}

func workloadsOf(lacking []show.Unconnected) []*routingv1.Workload {
	return lists.Map(lacking, func(u show.Unconnected) *routingv1.Workload { return u.Workload })
}

// A route server keeps a caller that it does not know waiting for half a minute at most,
// and answers only so many at a time.
const oneWait, nextTry = 30 * time.Second, time.Second

// surveyEvery is how long one wait lasts while a workload has no connected sidecar: after it the
// cluster is asked again whether that workload needs one.
const surveyEvery = 5 * time.Second

// waitFor repeats the request until all sidecars have acknowledged or the timeout expires. A wait
// for the end of the log is fixed at the end as of the first round: in a busy cluster no sidecar
// ever has the newest. It waits for the connected sidecars first. Then needing returns the
// workloads without a sidecar that need one; for these the route server is asked to wait.
func waitFor(ctx context.Context, client routingv1.RoutingClient, req *routingv1.WaitRequest, timeout time.Duration,
	needing func([]*routingv1.Workload) []*routingv1.Workload,
) (*routingv1.WaitResponse, error) {
	pinned, longest := false, oneWait
	req.ConnectedOnly = true
	for end := time.Now().Add(timeout); ; {
		left := max(time.Second, time.Until(end).Round(time.Second))
		req.TimeoutSeconds = int32(min(left, longest) / time.Second)
		got, err := client.Wait(ctx, req)
		if err == nil && acknowledged(got) {
			got.Unconnected = needing(got.GetUnconnected())
			got.Converged = len(got.GetUnconnected()) == 0
			req.ConnectedOnly, longest = false, surveyEvery
		}
		code := status.Code(err)
		began := pinned && failure.Reason(err) == failure.ReasonOtherEpoch
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
		if !wake.Sleep(ctx, nextTry) {
			return nil, err
		}
	}
}

// concernsSomebody reports whether the awaited key had a rule: before there is one its position is
// unknown.
func concernsSomebody(w *routingv1.WaitResponse) bool {
	return w.GetSidecars() > 0 || len(w.GetLagging()) > 0 || len(w.GetSilent()) > 0 || len(w.GetUnconnected()) > 0
}

// acknowledged reports whether nothing is missing but sidecars of workloads without any.
func acknowledged(w *routingv1.WaitResponse) bool {
	return len(w.GetUnconnected()) > 0 && len(w.GetLagging()) == 0 && len(w.GetSilent()) == 0 && len(w.GetMissing()) == 0
}

// List returns the command that lists sidecars.
func List(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use:   "sidecars",
		Short: "List the sidecars, and what each has acknowledged",
		Long: `List the DevMesh sidecars that are connected to any route server, and whether each
has acknowledged its current rules. Exit code 1 if one has not, or if a route server
did not respond.`,
		Args: cobra.NoArgs,
	}
	filter := parse.Filter(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		got, err := command.Ask(c.Context(), s, routingv1.RoutingClient.Sidecars, &routingv1.SidecarsRequest{Filter: f})
		if err != nil {
			return err
		}
		if err := show.Answer(s.Show, got, s.Show.Sidecars); err != nil {
			return err
		}
		lags := slices.ContainsFunc(got.GetSidecars(), func(s *routingv1.Sidecar) bool { return !s.GetCurrent() })
		return exit.No.Unless(!lags && len(got.GetSilent()) == 0)
	}
	return c
}
