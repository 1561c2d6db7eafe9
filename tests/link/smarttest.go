package link

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"switchyard.dev/tools/demo"
)

//go:embed names.star
var namesTest string

// SmartTest runs a Smart Test through a control plane from its chart, in a cluster with Switchyard and HotROD, inside the
// cluster's network: it passes on the baseline and fails on the sandbox. It returns an error if the scenario failed.
func SmartTest(ctx context.Context) (err error) {
	h, err := newHosted(demo.Steps())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.remove()) }()
	for _, act := range []func(context.Context) error{h.install, h.developer, h.register, h.apply, h.test, h.delete} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// test runs the test on the sandbox, with its baseline, and on the baseline alone.
func (h *hosted) test(ctx context.Context) error {
	h.step("a Smart Test on the sandbox, which renames customers: it fails, and the exit code is 1")
	fmt.Print("   ", strings.ReplaceAll(strings.TrimSpace(namesTest), "\n", "\n   "), "\n")
	if err := os.WriteFile(h.file("names.star"), []byte(namesTest), 0o600); err != nil {
		return err
	}
	out, err := h.switchyard(ctx, "test", "run", "--sandbox", hostedName, "names.star")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "customer 731 has another name") {
		return errors.Join(errors.New("the test does not fail by its check on the sandbox"), err)
	}
	h.step("on the baseline it passes")
	_, err = h.switchyard(ctx, "test", "run", "--cluster", linked.Name, "names.star")
	return err
}
