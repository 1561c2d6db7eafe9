// Package ledger is a PostgreSQL server outside of the cluster, in which scripts of units record
// their actions: their side effects, to be counted.
package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tests/container"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/samples"
	"switchyard.dev/tools/wait"
)

// The entries of a script in the ledger.
const (
	// Begun: the action has started.
	Begun = "begun"
	// Done: it has done all that it is for. This is its side effect.
	Done = "done"
)

// Line is what a script has noted.
type Line struct {
	// Pod is the UID of its pod.
	Pod string
	// Entry is Begun or Done.
	Entry string
}

// Ledger is a running server. Make one with Start.
type Ledger struct {
	system, dir string
	port        int
	server      *program.Program
}

// Programs is where the system has PostgreSQL, and data where its container has its data.
const (
	Programs = "/usr/lib/postgresql/15/bin"
	data     = "/mnt"
	user     = "postgres"
)

const patience = time.Minute

// Start starts a server with an empty ledger in a folder. system is what samples.System
// returns.
func Start(ctx context.Context, system, dir string) (*Ledger, error) {
	l := &Ledger{system: system, dir: dir}
	var err error
	if l.port, err = port.Free(); err != nil {
		return nil, err
	}
	unprivileged, _, _ := strings.Cut(samples.User, ":")
	id, err := strconv.Atoi(unprivileged)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "data")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chown(folder, id, id)); err != nil {
		return nil, err
	}
	as := []string{"/usr/bin/setpriv", "--reuid", unprivileged, "--regid", unprivileged, "--clear-groups"}
	begin := append(as, Programs+"/initdb", "-D", data+"/db", "-U", user, "-A", "trust", "--no-sync", "--no-locale")
	if _, err := l.run("initdb", nil, begin...); err != nil {
		return nil, err
	}
	c := container.Container{Root: system, Dir: filepath.Join(dir, "server"), Binds: []container.Bind{{From: folder, To: data}}}
	l.server, _, err = c.Start("postgres", nil, append(as, Programs+"/postgres", "-D", data+"/db", "-k", "/tmp",
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(l.port), "-c", "fsync=off", "-c", "jit=off")...)
	if err != nil {
		return nil, err
	}
	err = wait.Until(ctx, patience, "make the ledger", func() error {
		if err := l.server.Running(); err != nil {
			return wait.Final(err)
		}
		_, err := l.ask("CREATE TABLE IF NOT EXISTS ledger (at serial, pod text, entry text)")
		return err
	})
	if err != nil {
		return nil, errors.Join(err, l.Stop())
	}
	return l, nil
}

// Env is the environment in which psql finds the server.
func (l *Ledger) Env() map[string]string {
	return map[string]string{"PGHOST": "127.0.0.1", "PGPORT": strconv.Itoa(l.port), "PGUSER": user}
}

// Empty forgets all lines.
func (l *Ledger) Empty() error {
	_, err := l.ask("TRUNCATE ledger")
	return err
}

// Lines returns all lines, oldest first.
func (l *Ledger) Lines() ([]Line, error) {
	text, err := l.ask("SELECT pod, entry FROM ledger ORDER BY at")
	var out []Line
	for _, line := range strings.Fields(text) {
		pod, entry, _ := strings.Cut(line, "|")
		out = append(out, Line{pod, entry})
	}
	return out, err
}

// Stop ends the server.
func (l *Ledger) Stop() error { return l.server.Terminate(patience) }

// ask asks the server.
func (l *Ledger) ask(query string) (string, error) {
	return l.Ask(nil, query)
}

// Ask runs a query with psql, and returns its output; env is added to its environment, as where
// another path to the server begins.
func (l *Ledger) Ask(env map[string]string, query string) (string, error) {
	return l.run("psql", env, Programs+"/psql", "-XqtAc", query)
}

// run runs a program in the system to its end.
func (l *Ledger) run(name string, env map[string]string, command ...string) (string, error) {
	c := container.Container{Root: l.system, Dir: filepath.Join(l.dir, name), Binds: []container.Bind{{From: filepath.Join(l.dir, "data"), To: data}}}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", err
	}
	var out, wrong bytes.Buffer
	cmd := &exec.Cmd{Path: command[0], Args: command, Stdout: &out, Stderr: &wrong}
	all := l.Env()
	maps.Copy(all, env)
	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p, err := c.Run(name, cmd)
	if err != nil {
		return "", err
	}
	<-p.Ended()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return "", fmt.Errorf("%s ended with exit code %d: %s", name, code, wrong.String())
	}
	return out.String(), nil
}
