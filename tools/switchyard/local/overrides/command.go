package overrides

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/api"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
	"switchyard.dev/tunnels/workstation/socket"
)

const aboutOverride = `Send each request for a port of a fork to a process first, at the address of --with. Its
answer counts if it has the header or the gRPC metadata "sd-override: true"; with
--except-status it counts unless it has one of these statuses. The fork answers all other
requests, and all while the process is down. Answers of the fork have the header
sd-override-asked if the process has served the request too, and sd-override-skipped with
the reason if it has not.

The command connects this machine to the cluster, unless switchyard connect does, and
removes the override when you interrupt it. With --detach it leaves both to switchyard
connect, which you start first, and to override delete. The address of --with is opened to
the cluster.`

// Keep connects this machine until ctx ends, and opens the address with.
type Keep func(ctx context.Context, with string, wanted workstation.Told) error

// overriding is a run of the command.
type overriding struct {
	Run
	keep   Keep
	detach bool
	wait   time.Duration
}

// joinEvery is the pause between two reads of the status of an existing connection, and joinWithin how long it has to serve the override.
const joinEvery, joinWithin = time.Second, 10 * time.Second

// Command is override, and the commands below it.
func Command(s *command.Session, keep Keep) *cobra.Command {
	o := &overriding{Run: Run{Session: s}, keep: keep}
	c := &cobra.Command{
		Use: "override --sandbox S --port P --with ADDRESS", Short: "Answer requests to a fork from this machine first", Long: aboutOverride, Args: cobra.NoArgs,
		Example: "  switchyard override --sandbox pr-12 --workload cart --port 8080 --with localhost:9999\n  switchyard override --sandbox pr-12 --port 8080 --with 9999 --except-status 404,503",
	}
	var except []int
	var port uint16
	c.Flags().StringVarP(&o.Sandbox, "sandbox", "s", "", "the `sandbox`; required")
	c.Flags().StringVarP(&o.Workload, "workload", "w", "", "the forked `workload`, by its name or as kind/namespace/name; needed if the sandbox has several forks")
	c.Flags().Uint16VarP(&port, "port", "p", 0, "the `port` that the workload listens on; required")
	c.Flags().StringVar(&o.With, "with", "", "the `address` that answers, host:port or a port of localhost; required")
	c.Flags().IntSliceVar(&except, "except-status", nil, "let answers count unless they have one of these `statuses`; those below 100 are statuses of gRPC")
	c.Flags().BoolVarP(&o.detach, "detach", "d", false, "end once the override is active, and leave it")
	c.Flags().DurationVar(&o.wait, "wait-timeout", 3*time.Minute, "how long to wait until the override is active")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.Sandbox == "" || port == 0 || o.With == "" {
			return exit.Usage.Errorf("name the sandbox, the port of its workload and the address that answers: --sandbox NAME --port PORT --with ADDRESS")
		}
		if o.With, err = consent.ParseFlag(o.With); err != nil {
			return exit.Usage.Errorf("--with: %w", err)
		}
		o.Port, o.Policy = int32(port), policy.Policy{ByStatus: c.Flags().Changed("except-status"), Except: except}
		for _, code := range except {
			if err := policy.CheckStatus(code); err != nil {
				return exit.Usage.Errorf("--except-status %w", err)
			}
		}
		return o.run(c.Context())
	}
	c.AddCommand(listCommand(s), deleteCommand(s))
	return c
}

// run adds the override, waits until it is active, and removes it at the end.
func (o *overriding) run(ctx context.Context) (err error) {
	if o.Cluster, err = o.Session.Writer(); err != nil {
		return err
	}
	machine := ""
	err = Change(ctx, o.Session, o.Cluster, o.Sandbox, func(s *crdv1.SignadotSandbox) (err error) {
		machine = s.Annotations[api.AnnotationMachine]
		o.Name = ""
		o.Override, err = Add(s, o.Override)
		return err
	})
	if err != nil && ctx.Err() != nil && o.Name != "" { // it can be there
		return errors.Join(err, o.Remove(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return err
	}
	o.Print(fmt.Sprintf("override %s of %s is added to sandbox %s", o.Name, o.Workload, o.Sandbox))
	if err = o.serve(ctx, machine); err == nil && o.detach && ctx.Err() == nil {
		return nil
	}
	return errors.Join(err, o.Remove(context.WithoutCancel(ctx)))
}

// serve connects this machine if no other program does. It returns when the override is active with --detach, or else at its end.
func (o *overriding) serve(ctx context.Context, machine string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	switch {
	case o.joined(ctx):
		o.Print("requests use the existing connection (see " + o.Session.Name + " connect status)")
	case o.detach:
		o.Print(fmt.Sprintf("note: no program of this machine serves it: run %s connect --sandbox %s --allow %s", o.Session.Name, o.Sandbox, o.With))
	default:
		go func() {
			ended <- o.keep(ctx, o.With, workstation.Told{Sandboxes: []string{o.Sandbox}, Machine: machine})
			stop()
		}()
		defer func() { stop(); <-ended }()
	}
	if err := o.Await(ctx, o.wait); err != nil || o.detach {
		return err
	}
	o.Removed(ctx)
	select {
	case err := <-ended:
		ended <- nil
		return err
	default:
		return nil
	}
}

// joined reports whether another program of the user brings the requests to this machine.
func (o *overriding) joined(ctx context.Context) bool {
	for until := time.Now().Add(joinWithin); ; wake.Sleep(ctx, joinEvery) {
		if Brought(o.Session, o.Sandbox, o.Name) {
			return true
		}
		connected := slices.ContainsFunc(connections(o.Session), func(s workstation.Status) bool { return s.Connected })
		if !connected || time.Now().After(until) || ctx.Err() != nil {
			return false
		}
	}
}

// Brought reports whether a program of the user brings the requests of a workload to this machine.
func Brought(s *command.Session, sandbox, workload string) bool {
	return slices.ContainsFunc(connections(s), func(one workstation.Status) bool {
		return one.Connected && slices.ContainsFunc(one.Workloads, func(w workstation.WorkloadStatus) bool {
			return w.Open && w.Sandbox == sandbox && w.Name == workload
		})
	})
}

// connections returns the status of the user's programs that connect this machine.
func connections(s *command.Session) []workstation.Status {
	all, _ := socket.All[workstation.Status](socket.Folder(s.Getenv))
	return all
}
