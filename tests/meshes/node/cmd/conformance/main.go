// Command conformance runs the suite of tests/meshes/conformance on a node where the operator
// derives routes of the Gateway API for istiod. The first argument is the compiled test of the
// suite, further arguments are passed to it. It runs at the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"switchyard.dev/tests/meshes/node"
	"switchyard.dev/tools/demo"
)

const root = "."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := outside
	if demo.Inside() {
		do = inside
	}
	code, err := do(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func outside(ctx context.Context) (code int, err error) {
	if len(os.Args) < 2 {
		return 0, errors.New("name the compiled test: make conformance-meshes does it")
	}
	return demo.RunInsideOf(ctx, root, func(ctx context.Context, c demo.Config) error {
		c.Step("the suite's backends")
		images, err := backends(ctx, c.Root)
		if err != nil {
			return err
		}
		return node.Prepare(ctx, c, images...)
	})
}

func inside(ctx context.Context) (code int, err error) {
	if err := node.Install(ctx, root, "istio.enabled=true", "istio.gatewayAPI.enabled=true"); err != nil {
		return 0, err
	}
	suite := exec.CommandContext(ctx, os.Args[1], os.Args[2:]...) //nolint:gosec // the caller names the test
	suite.Stdout, suite.Stderr = os.Stdout, os.Stderr
	return 0, suite.Run()
}
