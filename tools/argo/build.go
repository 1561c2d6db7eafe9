package argo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// heartbeat is how often a build says on standard error how far it is.
const heartbeat = 20 * time.Second

// build runs `go build` in a folder and says how many packages are left.
func build(ctx context.Context, in string, args ...string) error {
	lacking, err := command(ctx, in, "list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", program)
	if err != nil {
		return err
	}
	total := len(strings.Fields(lacking))
	c := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...)
	c.Dir = in
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	lines, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var said []string
	done, next := 0, time.Now().Add(heartbeat)
	for read := bufio.NewScanner(lines); read.Scan(); {
		if strings.ContainsAny(read.Text(), " :#\t") { // not the name of a package
			said = append(said, read.Text())
			continue
		}
		if done++; time.Now().After(next) {
			next = time.Now().Add(heartbeat)
			fmt.Fprintf(os.Stderr, "      Argo Rollouts: %d of about %d packages compiled\n", done, total)
		}
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(said, "\n"))
	}
	return nil
}
