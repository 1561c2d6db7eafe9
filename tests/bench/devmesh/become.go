package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"switchyard.dev/sidecars/devmesh/keeper"
	"switchyard.dev/tests/bench/devmesh/lean"
)

// The roles of the processes that this program starts.
const (
	roleApp     = "app"     // with the numbers of baselines and of forks: their listeners are descriptors 3 and up
	roleSidecar = "sidecar" // configured by the environment
)

// become is one of the processes of a place.
func become(ctx context.Context, role string, args []string) error {
	runtime.LockOSThread()
	switch role {
	case roleApp:
		return becomeApp(args)
	case roleSidecar:
		return becomeSidecar(ctx)
	}
	return fmt.Errorf("%q is nothing to be", role)
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
	const first = 3
	bodies := map[int][]byte{}
	for i := range baselines + forks {
		bodies[first+i] = baselineBody
		if i >= baselines {
			bodies[first+i] = forkBody
		}
	}
	return lean.Serve(bodies)
}

// becomeSidecar runs the sidecar as its program does, with one worker.
func becomeSidecar(ctx context.Context) error {
	config, err := keeper.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config.Workers = 1
	return keeper.Run(ctx, config)
}
