package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"switchyard.dev/sidecars/devmesh/keeper"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/envoy"
)

// What this program starts itself as.
const (
	beApp     = "app"     // with the numbers of baselines and of forks: their listeners are descriptors 3 and up
	beEnvoy   = "envoy"   // with a bootstrap
	beSidecar = "sidecar" // configured by the environment
)

// programPath names the sidecar's program in the environment.
const programPath = "SWITCHYARD_BENCH_PROGRAM"

// isolated builds the sidecar's program, and runs this one again in a new network
// namespace.
func isolated(ctx context.Context, s settings) (int, error) {
	if s.rounds < 1 || s.calm < 1 || s.restarts < 1 {
		return 0, errors.New("each measurement needs one round at least")
	}
	dir, err := os.MkdirTemp("", "bench-devmesh-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "devmesh")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "switchyard.dev/sidecars/cmd/devmesh").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the sidecar's program: %w: %s", err, out)
	}
	path, err := envoy.Find(ctx)
	if err != nil {
		return 0, err
	}
	return podnet.Rerun(programPath+"="+program, "ENVOY="+path)
}

// become is one of the processes of a place. It ends with the one that started
// it: its input ends then.
func become(what string, args []string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	runtime.LockOSThread()
	switch what {
	case beApp:
		return becomeApp(args)
	case beEnvoy:
		return becomeEnvoy(args)
	case beSidecar:
		return becomeSidecar()
	}
	return fmt.Errorf("%q is nothing to be", what)
}

func becomeApp(args []string) error {
	if len(args) != 2 {
		return errors.New("how many baselines and forks?")
	}
	baselines, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	forks, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	a, err := newApp(3, baselines, forks)
	if err != nil {
		return err
	}
	return a.serve()
}

// becomeEnvoy runs Envoy as the sidecar's keeper does, with one worker.
func becomeEnvoy(args []string) error {
	if len(args) != 1 {
		return errors.New("which bootstrap?")
	}
	cmd := exec.CommandContext(context.Background(), os.Getenv("ENVOY"), "-c", args[0], "--concurrency", "1",
		"--log-level", "error", "--disable-hot-restart")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// The kernel ends the child with the thread that started it, which is this
	// program's own.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// becomeSidecar runs the sidecar as its program does, with one worker.
func becomeSidecar() error {
	config, err := keeper.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config.Workers = 1
	return keeper.Run(context.Background(), config)
}
