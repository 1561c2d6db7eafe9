// Package postgres starts Debian's PostgreSQL for tests, unmodified and with its default durability.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/tests/port"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/wait"
)

// Server is a server with its own data, on a port of loopback. Make one with New.
type Server struct {
	programs, dir string
	port          int
	settings      []string
	running       *program.Program
}

const (
	patience = time.Minute
	// unprivileged is the user that runs the server, which refuses to run as root.
	unprivileged = 65534
	user         = "postgres"
)

// Temporary starts a server with its data in a temporary folder. settings are as those of New. The caller
// calls Remove.
func Temporary(ctx context.Context, settings ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "postgres-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server has another user
		return nil, err
	}
	s, err := New(ctx, dir, settings...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Remove ends a temporary server, and removes its data.
func (s *Server) Remove() error {
	s.Kill()
	return os.RemoveAll(filepath.Dir(s.dir))
}

// New starts a server with its data in a folder that all users can reach, such as a temporary one.
// settings are NAME=VALUE.
func New(ctx context.Context, dir string, settings ...string) (*Server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, errors.New("no PostgreSQL in /usr/lib/postgresql: run make parts, which installs Debian's package postgresql")
	}
	slices.Sort(found)
	s := &Server{programs: filepath.Dir(found[len(found)-1]), dir: filepath.Join(dir, "postgres"), settings: settings}
	if s.port, err = port.Free(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(s.dir, unprivileged, unprivileged); err != nil {
			return nil, err
		}
	}
	init := s.command("initdb", "-D", filepath.Join(s.dir, "data"), "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, s.Start(ctx)
}

// command runs a program of PostgreSQL, not as root.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	args = append([]string{filepath.Join(s.programs, name)}, args...)
	if os.Geteuid() == 0 {
		id := strconv.Itoa(unprivileged)
		// Another user clears the signal that package program sets.
		args = append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--pdeathsig", "KILL"}, args...)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Dir = s.dir
	return cmd
}

// Start starts the server again. None is running.
func (s *Server) Start(ctx context.Context) error {
	data := filepath.Join(s.dir, "data")
	if err := os.RemoveAll(filepath.Join(data, "postmaster.pid")); err != nil {
		return err
	}
	args := []string{"-D", data}
	for _, one := range append([]string{"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=", "jit=off"}, s.settings...) {
		args = append(args, "-c", one)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	cmd := s.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	s.running, err = program.Start("", "postgres", cmd, nil)
	if err := errors.Join(err, log.Close()); err != nil { // the child has its own
		return err
	}
	return wait.Until(ctx, patience, "start PostgreSQL", func() error {
		if err := s.running.Running(); err != nil {
			text, _ := os.ReadFile(log.Name()) // without it the error is less clear
			return wait.Final(fmt.Errorf("%w: %s", err, text))
		}
		return s.Execute(ctx, user, "SELECT 1")
	})
}

// Kill ends all processes of the server without warning.
func (s *Server) Kill() {
	s.running.Kill()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is valid
		killed := false
		for _, cwd := range all {
			// Its processes, and no others, have the folder with the data as their own.
			if at, err := os.Readlink(cwd); err != nil || at != filepath.Join(s.dir, "data") {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(cwd))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				killed = true
			}
		}
		if !killed {
			return
		}
	}
}

// Stop ends the server.
func (s *Server) Stop() error { return s.running.Terminate(patience) }

// URL is that of a database.
func (s *Server) URL(database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User(user), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path: database, RawQuery: "sslmode=disable",
	}).String()
}

// Create creates a database, and returns its URL. options are those of CREATE DATABASE.
func (s *Server) Create(ctx context.Context, database, options string) (string, error) {
	return s.URL(database), s.Execute(ctx, user, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()+" "+options)
}

// Execute runs a statement in a database.
func (s *Server) Execute(ctx context.Context, database, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
