package recipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/lock"
)

// heartbeat is the interval at which a running build reports its progress.
const heartbeat = 20 * time.Second

// Builder compiles groups of one recipe into the cache.
type Builder struct {
	// Source is the folder of this program, with the pinned modules in it.
	Source string
	// Groups is the whole recipe.
	Groups []Group
	// Dir is the directory of the recipe's programs: CACHE/bin/HASH.
	Dir string

	heartbeat time.Duration
}

// Open reads the pins below source and returns a Builder of their programs in cache.
func Open(source, cache string) (*Builder, error) {
	pins := Pins{}
	for _, name := range PinFiles() {
		content, err := os.ReadFile(filepath.Join(source, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the build recipe %s is not in %s: run this program from a checkout of the project, or set SWITCHYARD_SOURCE to its tools/cluster folder", name, source)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the build recipe: %w", err)
		}
		pins[name] = content
	}
	groups, err := Groups(pins)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "bin", Hash(pins, groups, runtime.Version()))
	return &Builder{Source: source, Groups: groups, Dir: dir, heartbeat: heartbeat}, nil
}

// Missing returns those of the groups that still have a program to be built.
func (b *Builder) Missing(groups []Group) []Group {
	var missing []Group
	for _, g := range groups {
		for _, p := range g.Programs {
			if _, err := os.Stat(filepath.Join(b.Dir, p.Name)); err != nil {
				missing = append(missing, g)
				break
			}
		}
	}
	return missing
}

// Build compiles the groups that are not in the cache yet and points bin/current to the recipe's
// directory. Concurrent builds wait for each other. note receives the progress as text.
func (b *Builder) Build(ctx context.Context, groups []Group, note func(format string, args ...any)) error {
	unlock, err := lock.Take(ctx, filepath.Join(filepath.Dir(b.Dir), "build.lock"), func(owner string) {
		note("another build (process %s) is running; waiting for it", owner)
	})
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return fmt.Errorf("making the cache directory: %w", err)
	}
	missing := b.Missing(groups)
	far, err := b.count(ctx, missing, note)
	if err != nil {
		return err
	}
	for _, g := range missing {
		if err := b.group(ctx, g, far, note); err != nil {
			return err
		}
	}
	return b.link()
}

// group compiles one group beside its place and moves the finished programs
// there, so that a build that was cut off never leaves half of a program.
func (b *Builder) group(ctx context.Context, g Group, far *tally, note func(string, ...any)) error {
	temp, err := os.MkdirTemp(b.Dir, ".building-")
	if err != nil {
		return fmt.Errorf("making a build directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what stays is empty, or of a build that failed
	var names []string
	for _, p := range g.Programs {
		names = append(names, p.Name)
	}
	cmd := b.command(ctx, g, "build", "-v", "-o", temp+"/")
	start := time.Now()
	if err := b.run(cmd, far.take, func() { note("%s: %v", strings.Join(names, ", "), far) }); err != nil {
		return fmt.Errorf("compiling %s in %s: %w", strings.Join(names, ", "), cmd.Dir, err)
	}
	note("built %s in %.0f s", strings.Join(names, ", "), time.Since(start).Seconds())
	for _, p := range g.Programs {
		if err := os.Rename(filepath.Join(temp, p.output()), filepath.Join(b.Dir, p.Name)); err != nil {
			return fmt.Errorf("moving %s to its place: %w", p.Name, err)
		}
	}
	return nil
}

// command is the go command with the given arguments, for the packages of a group.
func (b *Builder) command(ctx context.Context, g Group, args ...string) *exec.Cmd {
	args = append(args, g.Flags...)
	for _, p := range g.Programs {
		args = append(args, p.Package)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Source, g.Module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOOS=", "GOARCH=")
	cmd.Env = append(cmd.Env, g.Env...)
	return cmd
}

// run runs a go command and calls beat periodically. The output of the command, except for the
// lines that take accepts, becomes part of the error.
func (b *Builder) run(cmd *exec.Cmd, take func(line string) bool, beat func()) error {
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("connecting to the compiler: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the Go compiler: %w", err)
	}
	stop := make(chan struct{})
	go func() {
		for tick := time.NewTicker(b.heartbeat); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				beat()
			}
		}
	}()
	said := collect(pipe, take)
	close(stop)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(said))
	}
	return nil
}

// collect returns the lines that take does not take, at most the last 40.
func collect(r io.Reader, take func(line string) bool) string {
	var said []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); !take(line) {
			said = append(said, line)
		}
	}
	return strings.Join(said[max(0, len(said)-40):], "\n")
}

// link makes bin/current point to the recipe's directory, in one step.
func (b *Builder) link() error {
	current := filepath.Join(filepath.Dir(b.Dir), "current")
	fresh := current + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("linking %s: %w", current, err)
	}
	if err := os.Symlink(filepath.Base(b.Dir), fresh); err != nil {
		return fmt.Errorf("linking %s: %w", current, err)
	}
	if err := os.Rename(fresh, current); err != nil {
		return fmt.Errorf("linking %s: %w", current, err)
	}
	return nil
}
