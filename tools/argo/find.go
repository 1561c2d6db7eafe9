package argo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"switchyard.dev/tools/cache"
)

// module is what is compiled, program its main package.
const (
	module  = "github.com/argoproj/argo-rollouts"
	program = module + "/cmd/rollouts-controller"
)

// Argo is Argo Rollouts on this machine.
type Argo struct {
	// Controller is the path of the controller's program.
	Controller string
	// Definitions is a folder with the CustomResourceDefinitions, one in each YAML file
	// whose name ends in -crd.yaml.
	Definitions string
}

// Find gives Argo Rollouts, and compiles the controller first when the cache has none
// of the pinned version. root is the folder of this repository. The error is one that
// says what to do.
func Find(ctx context.Context, root string) (Argo, error) {
	pinned := filepath.Join(root, "tools", "argo", "pinned")
	source, err := command(ctx, pinned, "list", "-m", "-f", "{{.Dir}}", module)
	if err == nil && source == "" { // The module is not in the module cache yet.
		if _, err = command(ctx, pinned, "mod", "download", module); err == nil {
			source, err = command(ctx, pinned, "list", "-m", "-f", "{{.Dir}}", module)
		}
	}
	if err != nil {
		return Argo{}, fmt.Errorf("find the source of Argo Rollouts: %w", err)
	}
	name, err := hash(pinned)
	if err != nil {
		return Argo{}, err
	}
	a := Argo{
		Controller:  filepath.Join(cache.Dir(), "argo", name, "rollouts-controller"),
		Definitions: filepath.Join(source, "manifests", "crds"),
	}
	if _, err := os.Stat(a.Controller); err == nil {
		return a, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return Argo{}, fmt.Errorf("look for Argo Rollouts in the cache: %w", err)
	}
	return a, compile(ctx, pinned, a.Controller)
}

// compile compiles the controller. The name is given last, so that nobody meets half a
// program.
func compile(ctx context.Context, pinned, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make room for Argo Rollouts in the cache: %w", err)
	}
	half := fmt.Sprintf("%s.%d", to, os.Getpid())
	if err := build(ctx, pinned, "-trimpath", "-ldflags=-s -w", "-o", half, program); err != nil {
		return fmt.Errorf("compile Argo Rollouts: %w", err)
	}
	return os.Rename(half, to)
}

// hash names what is compiled from the pins.
func hash(pinned string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(pinned, name))
		if err != nil {
			return "", fmt.Errorf("read the pins of Argo Rollouts: %w", err)
		}
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// command runs the go command in a folder and gives what it says.
func command(ctx context.Context, in string, args ...string) (string, error) {
	var out, wrong bytes.Buffer
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stdout, c.Stderr = in, &out, &wrong
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, wrong.String())
	}
	return strings.TrimSpace(out.String()), nil
}
