package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/protos/crd/variable/unsafeenv"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/interrupt"
	"switchyard.dev/tools/switchyard/local/allow"
	"switchyard.dev/tools/switchyard/local/header"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/tools/switchyard/local/overrides"
	"switchyard.dev/tools/switchyard/local/process"
	"switchyard.dev/tunnels/api"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/containerenv"
)

const aboutRun = `Run a local process instead of a container of the cluster. It gets the environment of the
baseline's container, the files of its volumes (in a folder of their own), the env and
files that the sandbox defines for the workload (local), and the requests with the
sandbox's routing key, at the local addresses that the sandbox names. An address is opened
if you changed the sandbox last, or if --allow or -f names it. Any other is refused with
the command that allows it, because the process uses the terminal.

The container's variables override yours, except PATH, HOME and others that describe the
machine. Variables from which loaders, shells or interpreters run code, such as LD_PRELOAD
or BASH_ENV, are omitted and listed on standard error, unless --allow-env names them.
Volumes are below $SWITCHYARD_ROOT, and variables that contain a path in one of them are
changed accordingly (--as-is keeps them). The folder is removed when the process ends;
after kill -9, when the next run starts. The token of the service account is not copied,
because it was issued for pods: if the process calls the API server, it does so with your
own rights, or not at all.`

// running is a run of the command.
type running struct {
	place
	localenv.Workload
	ways
	sandbox                     string
	asIs, clean, alone, proxied bool
	taking                      bool
	root, machine               string
	take                        []string
	named                       allow.Named
	lock                        *os.File
	result                      containerenv.Result
}

func run(s *command.Session) *cobra.Command {
	r := &running{place: place{s: s, ofCluster: true}}
	c := &cobra.Command{
		Use: "run --sandbox S [--workload W] -- COMMAND", Short: "Run a local process with a container's environment, files and traffic", Long: aboutRun,
		Example: "  switchyard run --sandbox mine --workload customer -- ./customer --port 8081",
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usage.Errorf("name the command after --, as in: %s run --sandbox %s -- COMMAND", s.Name, cmp.Or(r.sandbox, "NAME"))
		}
		return nil
	}
	r.place.flags(c.Flags())
	r.Workload.Flags(c.Flags(), "workload", "w")
	r.ways.flags(c.Flags(), "", "")
	r.named.Flags(c.Flags(), "")
	c.Flags().StringVarP(&r.sandbox, "sandbox", "s", "", "the `sandbox`; required")
	c.Flags().BoolVar(&r.asIs, "as-is", false, "do not change variables that contain paths in volumes")
	c.Flags().BoolVar(&r.clean, "clean-env", false, "of your own variables keep only PATH, HOME and others that describe the machine")
	c.Flags().BoolVar(&r.alone, "no-connect", false, "only environment and files: receive no requests")
	c.Flags().BoolVar(&r.proxied, "proxy-env", false, "set HTTP_PROXY and ALL_PROXY to a proxy into the cluster, which adds the routing key to HTTP requests, and NO_PROXY to this machine")
	c.Flags().BoolVar(&r.taking, "take", false, "take over the sandbox's tunnels from another user")
	c.RunE = func(c *cobra.Command, args []string) error {
		if r.sandbox == "" {
			return exit.Usage.Errorf("name the sandbox: --sandbox NAME")
		}
		return r.run(c.Context(), c.Flags().Changed, args)
	}
	return c
}

// run prepares what the process has, connects, and runs it.
func (r *running) run(ctx context.Context, given func(string) bool, args []string) error {
	_, _ = r.context() // Connect reports its error.
	cluster, err := r.s.Writer()
	if err != nil {
		return err
	}
	brief, cancel := r.s.Patiently(ctx)
	result, x, err := r.Resolve(brief, cluster, r.sandbox)
	if err == nil {
		err = r.allows(brief, cluster, x.Name)
	}
	cancel()
	if err != nil {
		return err
	}
	r.result = result
	folder, err := localenv.NewFolder(x.Name)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Release() }()
	r.root, r.lock = folder.Root, folder.Lock
	if _, err := localenv.Write(r.root, result.Files, false); err != nil {
		return err
	}
	localenv.Warn(r.s, result)
	if r.alone {
		return r.start(ctx, args)
	}
	if overrides.Brought(r.s, r.sandbox, x.Name) && len(r.maps) == 0 && !r.proxied {
		printLine(r.s.Err, "requests use the existing connection (see "+r.s.Name+" connect status)")
		return r.start(ctx, args)
	}
	return r.connected(ctx, given, x.Name, args)
}

// allows opens the addresses of this machine that flags and files name. Those that the sandbox names are
// opened as connect opens them: if the user is its last author.
func (r *running) allows(ctx context.Context, cluster client.Reader, workload string) error {
	o, err := localenv.Sandbox(ctx, cluster, r.sandbox)
	if err != nil {
		return err
	}
	policy, of, err := r.named.Policy(r.s)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(of, func(name string) bool { return name != r.sandbox }) {
		return exit.Usage.Errorf("-f names a file of sandbox %s, but --sandbox names %s", strings.Join(of, ", "), r.sandbox)
	}
	r.machine = o.Annotations[api.AnnotationMachine]
	if r.taking {
		r.take = []string{r.sandbox}
	}
	return r.agree(policy, "run", " --workload "+workload+" -- COMMAND") // the terminal is the process's
}

// connected runs the process with a separate workstation.
func (r *running) connected(ctx context.Context, given func(string) bool, workload string, args []string) error {
	w, err := r.workstation()
	if err != nil {
		return err
	}
	key, err := r.keyed(ctx, header.Source{Sandbox: r.sandbox})
	if err != nil {
		return err
	}
	if r.proxied {
		r.ways.http, r.ways.socks = cmp.Or(r.ways.http, "127.0.0.1:0"), cmp.Or(r.ways.socks, "127.0.0.1:0")
	}
	if err := r.listen(r.s, given); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- r.keep(ctx, w, &r.ways, key, workstation.Told{Sandboxes: []string{r.sandbox}, Machine: r.machine, Take: r.take})
	}()
	if err := first(ctx, w, workload, ended); err != nil {
		return err
	}
	var process sync.WaitGroup
	done := make(chan error, 1)
	process.Go(func() { done <- r.start(ctx, args) })
	defer process.Wait()
	select {
	case err := <-done:
		cancel()
		<-ended
		return err
	case err := <-ended: // Only with ctx: a session that was there comes back.
		cancel()
		return errors.Join(err, <-done)
	}
}

// opening is how long run waits for the cluster to route requests to this machine before it starts
// the process anyway: some workloads become ready only once the process listens.
const opening = 10 * time.Second

// first waits until there is a session, and a little for the workload's tunnel.
func first(ctx context.Context, w *workstation.Workstation, workload string, ended <-chan error) error {
	patience := time.After(opening)
	for late := false; ; {
		now, changed := w.Status()
		for _, one := range now.Workloads {
			if one.Name == workload && (one.Open || !one.Allowed) {
				return nil // if none of its addresses is allowed, waiting changes nothing
			}
		}
		if late && now.Connected {
			return nil
		}
		select {
		case <-changed:
		case <-patience:
			late = true
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// environ returns the environment of the process.
func (r *running) environ() []string {
	vars := r.result.Env
	if !r.asIs {
		var changed, left []string
		if vars, changed, left = r.result.Below(r.root); len(changed) > 0 {
			printLine(r.s.Err, "note: these variables name paths below "+r.root+": "+strings.Join(changed, ", "))
			if loads := slices.DeleteFunc(changed, func(name string) bool { return !unsafeenv.NamesPath(name) }); len(loads) > 0 {
				printLine(r.s.Err, "warning: programs may load code or configuration of the cluster by these variables: "+strings.Join(loads, ", ")+". --as-is leaves their values unchanged")
			}
		}
		if len(left) > 0 {
			printLine(r.s.Err, "note: these variables are unchanged, although they may name paths below "+r.root+", because it is unclear where a path begins: "+strings.Join(left, ", ")+". The command can compute them from $SWITCHYARD_ROOT")
		}
	}
	vars = append(vars, containerenv.Var{Name: "SWITCHYARD_ROOT", Value: r.root})
	if r.proxied {
		h, s := "http://"+r.at("http-proxy"), "socks5h://"+r.at("socks5")
		// This machine's own servers are here and not in the cluster, which curl and others do not know.
		const here = "localhost,127.0.0.1,::1"
		for name, value := range map[string]string{"HTTP_PROXY": h, "http_proxy": h, "ALL_PROXY": s, "all_proxy": s, "NO_PROXY": here, "no_proxy": here} {
			vars = append(vars, containerenv.Var{Name: name, Value: value})
		}
	}
	return containerenv.Environ(os.Environ(), vars, r.clean)
}

// start runs the process, and ends with its exit code.
func (r *running) start(ctx context.Context, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return exit.Failed.Errorf("%s cannot be started: %w", args[0], err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args[1:]...) // signals end it
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = r.s.In, r.s.Out, r.s.Err, r.environ()
	cmd.ExtraFiles = []*os.File{r.lock} // While one of its processes runs, the folder is in use.
	signals, back := interrupt.Divert(ctx)
	defer back()
	job := process.Job{Cmd: cmd, Signals: signals, Patience: patience}
	result, err := job.Run()
	if err != nil {
		return exit.Failed.Errorf("%s cannot be started: %w", args[0], err)
	}
	if len(result.Left) > 0 {
		printLine(r.s.Err, fmt.Sprintf("note: %s ended, and left processes running: %s. They keep the ports that they listen on, and the folder of files; end them with: kill -- -%d",
			args[0], result.Names(), result.Group))
	}
	if result.Code != 0 {
		return exit.Code(result.Code).Silently()
	}
	return nil
}

// patience is how long processes may go on that outlive an interrupted command.
const patience = 10 * time.Second
