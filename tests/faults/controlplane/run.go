package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"switchyard.dev/tests/faults"
	"switchyard.dev/tests/postgres"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
)

// Databases are those of Run.
var Databases = []string{"sqlite", "postgres"}

// Run writes, kills the process or cuts the power under the database, and checks the store, until
// enough writes were acknowledged.
type Run struct {
	// Database is one of Databases.
	Database string
	// Cut: the power of the disk is cut each time; otherwise the process that writes is killed.
	Cut bool
	// Settings are those of PostgreSQL.
	Settings []string
	Writes   int
	Seed     uint64
	// Scratch is a directory to work in; Log takes what the processes log.
	Scratch string
	Log     io.Writer
}

// ErrDamaged is wrapped by the error of a run in which the database does not start after a cut, or refuses reads
// or writes.
var ErrDamaged = errors.New("the database is damaged")

// damaged wraps ErrDamaged around an error of PostgreSQL itself, unless the run was ended.
func damaged(ctx context.Context, err error, itself bool) error {
	if err == nil || ctx.Err() != nil || !itself {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Figures are the results.
type Figures struct {
	// Lives counts the processes, Acked the acknowledged writes.
	Lives, Acked int
	// Lost are the acknowledged writes that the store does not have, Half the objects that are half applied.
	Lost, Half []string
}

const (
	// most is how many writes a process can have acknowledged when it is killed.
	most = 60
	// diskMiB is the size of the disk.
	diskMiB     = 512
	stepTimeout = 2 * time.Minute
)

// Do runs it.
func (r Run) Do(ctx context.Context) (f Figures, err error) {
	dir, err := os.MkdirTemp(r.Scratch, "store-")
	if err != nil {
		return f, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL has another user
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	disk, err := faults.NewDisk(dir, diskMiB)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, disk.Remove()) }()
	var server *postgres.Server
	s := site{Path: filepath.Join(disk.Dir, "store.db")}
	if r.Database == "postgres" {
		if server, err = postgres.New(ctx, disk.Dir, r.Settings...); err != nil {
			return f, err
		}
		defer func() { server.Kill() }()
		s = site{}
		if s.PostgreSQL, err = server.Create(ctx, "store", ""); err != nil {
			return f, err
		}
	}
	if err := s.fill(ctx); err != nil {
		return f, err
	}
	unix.Sync() // initdb does not
	random, acked := rand.New(rand.NewPCG(r.Seed, 1)), map[string]bool{}
	for len(acked) < r.Writes && len(f.Lost)+len(f.Half) == 0 {
		f.Lives++
		s.Life = f.Lives
		bounded, cancel := context.WithTimeout(ctx, stepTimeout)
		err := r.life(bounded, s, random, acked, disk, server)
		if err == nil {
			f.Lost, f.Half, err = checked(bounded, s, acked)
			var refused *pgconn.PgError
			err = damaged(bounded, err, r.Cut && errors.As(err, &refused))
		}
		cancel()
		if err != nil {
			return f, fmt.Errorf("%s with seed %d, life %d: %w", r.Database, r.Seed, f.Lives, err)
		}
	}
	f.Acked = len(acked)
	return f, nil
}

func checked(ctx context.Context, s site, acked map[string]bool) (lost, half []string, err error) {
	in, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	lost, half, err = check(ctx, in, acked)
	return lost, half, errors.Join(err, in.Close())
}

// life starts the process that writes, and ends it. Afterwards the database runs again.
func (r Run) life(ctx context.Context, s site, random *rand.Rand, acked map[string]bool, disk *faults.Disk, server *postgres.Server) error {
	acks, writer, err := start(s, r.Log)
	if err != nil {
		return err
	}
	defer acks.Close()
	defer writer.Kill()
	stop := context.AfterFunc(ctx, writer.Kill)
	defer stop()
	lines := bufio.NewScanner(acks)
	for range random.IntN(most) {
		if !lines.Scan() {
			err := fmt.Errorf("the process that writes has ended by itself: %w", writer.Running())
			return damaged(ctx, err, r.Cut && s.Life > 1)
		}
		acked[lines.Text()] = true
	}
	time.Sleep(time.Duration(random.Int64N(int64(4 * time.Millisecond)))) // to any point of a write
	if !r.Cut {
		writer.Kill()
		for lines.Scan() {
			acked[lines.Text()] = true
		}
		return ctx.Err()
	}
	// Acknowledgements from here on do not count: ext4 acknowledges a sync that races with its shutdown without having
	// done it.
	if err := disk.Cut(); err != nil {
		return err
	}
	writer.Kill()
	if server != nil {
		server.Kill()
	}
	if err := errors.Join(disk.Unmount(), disk.Mount()); err != nil || server == nil {
		return err
	}
	return damaged(ctx, server.Start(ctx), true)
}

// start starts the process that writes; acks are its acknowledged writes.
func start(s site, log io.Writer) (acks *os.File, writer *program.Program, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	cmd, err := process.Command(role, variable+"="+string(text))
	if err != nil {
		return nil, nil, err
	}
	acks, into, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = into, log
	writer, err = program.Start("", "writer", cmd, nil)
	_ = into.Close() // the child has its own
	return acks, writer, err
}

// Isolate is faults.Isolate. In a process that writes, or in one of a replica, it does that instead, and does not
// return.
func Isolate() (scratch string, err error) {
	if run := map[string]func(io.Writer) error{role: Write, replicaRole: Replicate}[process.Role()]; run != nil {
		if err := run(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "controlplane:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	return faults.Isolate()
}
