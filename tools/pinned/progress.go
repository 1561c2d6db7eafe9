package pinned

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// heartbeat is the interval at which a build reports its progress on standard error.
const heartbeat = 20 * time.Second

// build compiles the tools with `go build` and reports the number of remaining packages.
func (m Module) build(ctx context.Context, args ...string) error {
	lacking, err := m.command(ctx, append([]string{"list", "-deps", "-trimpath", "-tags=" + m.Tags, "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, m.tools()...)...)
	if err != nil {
		return err
	}
	total := len(strings.Fields(lacking))
	c := m.goes(ctx, slices.Concat([]string{"build", "-v", "-trimpath", "-tags=" + m.Tags}, args, m.tools())...)
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
			fmt.Fprintf(os.Stderr, "      %s: %d of about %d packages compiled\n", m.Name, done, total)
		}
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(said, "\n"))
	}
	return nil
}
