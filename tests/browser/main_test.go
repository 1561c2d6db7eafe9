package browser_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/tests/browser"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/sweep/life"
)

// The environment of a control plane is its flags, and that of the tests is the program of the issuer.
const (
	roleControlPlane = "controlplane"
	flagsVariable    = "SWITCHYARD_CONTROLPLANE"
	issuerVariable   = "SWITCHYARD_ISSUER"
)

func TestMain(m *testing.M) {
	if err := run(m); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// run runs the tests in a network of their own, from which no other host is reached; only root can create it.
func run(m *testing.M) error {
	if process.Role() == roleControlPlane {
		return runControlPlane()
	}
	if os.Geteuid() == 0 && browser.Installed() == nil {
		program, err := prepare()
		if err != nil {
			return err
		}
		if err := podnet.Isolate(issuerVariable + "=" + program); err != nil {
			return err
		}
	}
	os.Exit(m.Run())
	return nil
}

// prepare builds and fetches what needs the network, before it is left, and returns the program of the issuer.
func prepare() (issuer string, err error) {
	if podnet.Inside() {
		return "", nil
	}
	if err := browser.Prepare(context.Background()); err != nil {
		return "", err
	}
	issuer = filepath.Join(os.TempDir(), "switchyard-issuer")
	build := exec.Command("go", "build", "-C", "../issuer", "-trimpath", "-o", issuer, ".") //nolint:noctx // it ends
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the issuer: %w: %s", err, out)
	}
	return issuer, nil
}

// runControlPlane is the program of a control plane, until its input ends.
func runControlPlane() error {
	var s controlplane.Settings
	flags := flag.NewFlagSet(roleControlPlane, flag.ContinueOnError)
	s.Flags(flags)
	if err := flags.Parse(strings.Split(os.Getenv(flagsVariable), "\n")); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: s.Level}))
	life.Quiet(logger)
	c, err := s.Read(logger)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		stop()
	}()
	main, err := controlplane.New(ctx, c)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
