package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tools/wait"
)

// An Outage breaks the disk under a running bus, leaves it broken for a while,
// and mends it.
type Outage struct {
	// Kind is one of Kinds.
	Kind string
	// For is how long the disk stays broken after the bus has noticed.
	For  time.Duration
	Seed uint64
	// Scratch is a directory to work in; Log takes what the bus logs.
	Scratch string
	Log     io.Writer
}

// OutageFigures are the results.
type OutageFigures struct {
	Acked, Lost int
	// Noticed is how long the bus took to report that it is not ready, Reason the reported
	// reason.
	Noticed time.Duration
	Reason  string
	// Ready is how long after the end of the cause the bus was ready again, and
	// Written when the next event was acknowledged.
	Ready, Written time.Duration
}

// kind is a way in which a disk fails.
type kind struct {
	// make mounts a volume below a directory.
	make func(below string) (volume, error)
}

// volume is a disk that can be broken and repaired.
type volume struct {
	dir          string
	breaks, mend func(*Bus) error
	remove       func() error
	// quietly is for a file system that acknowledges a sync that races with its
	// own end, without having done it, as ext4 does (with a bare file and fsync:
	// in 11 cases of 60): it ends when no sync is under way.
	quietly bool
}

// broken breaks the volume.
func (v volume) broken(bus *Bus, gate *sync.RWMutex) error {
	if v.quietly {
		gate.Lock()
		defer gate.Unlock()
	}
	return v.breaks(bus)
}

// kinds are the ways in which disks fail here.
var kinds = map[string]kind{
	"disk full":      {fullDisk},
	"no inodes":      {noInodes},
	"read-only":      {readOnly},
	"disk gone":      {diskGone},
	"failing syncs":  {failing("fsync,fdatasync")},
	"failing writes": {failing("pwrite64")},
}

// Kinds names the ways in which disks fail here.
func Kinds() []string { return sorted(kinds) }

// Run runs the bus through the outage.
func (o Outage) Run(ctx context.Context) (f OutageFigures, err error) {
	dir, err := os.MkdirTemp(o.Scratch, "outage-")
	if err != nil {
		return f, err
	}
	v, err := kinds[o.Kind].make(dir)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, v.remove(), os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, o.For+2*stepTimeout)
	defer cancel()
	bus, log, err := startOpen(ctx, BusConfig{Store: filepath.Join(v.dir, "store")}, o.Log, o.Scratch)
	if err != nil {
		return f, err
	}
	defer bus.Kill()
	ledger := &Ledger{}
	if _, err := beginWith(ctx, log, ledger.Tip()); err != nil {
		return f, err
	}
	w := Writing{Log: log, Ledger: ledger, Name: "o", Writers: 8, Rand: rand.New(rand.NewPCG(o.Seed, 2)), Gate: &sync.RWMutex{}}
	stop := w.Start(ctx)
	err = o.through(ctx, bus, v, w, &f)
	stop()
	if err != nil {
		return f, errors.Join(err, ledger.Ended())
	}
	f.Acked, _ = ledger.Acked()
	f.Lost, err = lostOf(ctx, bus, ledger, o.Scratch)
	return f, errors.Join(err, ledger.Ended())
}

// through breaks the disk and mends it, while writers write.
func (o Outage) through(ctx context.Context, bus *Bus, v volume, w Writing, f *OutageFigures) error {
	ledger := w.Ledger
	if err := until(ctx, func() bool { n, _ := ledger.Acked(); return n > 100 }); err != nil {
		return fmt.Errorf("before the outage: %w", err)
	}
	began := time.Now()
	if err := v.broken(bus, w.Gate); err != nil {
		return err
	}
	if err := bus.Await(ctx, "reports that it is not ready", func(s Status) bool { return !s.Ready }); err != nil {
		return err
	}
	f.Noticed, f.Reason = time.Since(began), bus.Status().Reason
	if err := wait.For(ctx, o.For); err != nil {
		return err
	}
	if s := bus.Status(); s.Ready {
		return fmt.Errorf("the bus reports that it is ready on a broken disk: %+v", s)
	}
	if err := v.mend(bus); err != nil {
		return err
	}
	mended := time.Now()
	if err := bus.AwaitReady(ctx); err != nil {
		return err
	}
	f.Ready = time.Since(mended)
	if err := until(ctx, func() bool { _, at := ledger.Acked(); return at.After(mended) || ledger.Ended() != nil }); err != nil {
		return fmt.Errorf("the bus is ready, but writes fail: %w", err)
	}
	_, at := ledger.Acked()
	f.Written = at.Sub(mended)
	return nil
}

// memory returns a volume in memory.
func memory(below, options string) (volume, error) {
	v := volume{dir: filepath.Join(below, "memory")}
	v.remove = func() error { return unix.Unmount(v.dir, unix.MNT_DETACH) }
	return v, mountMemory(v.dir, options)
}

// remount changes the bounds of a volume in memory.
func (v volume) remount(options string) error {
	if err := unix.Mount("", v.dir, "", unix.MS_REMOUNT, options); err != nil {
		return fmt.Errorf("remount with %s: %w", options, err)
	}
	return nil
}

// fullDisk is full until it becomes larger. Others have filled it, for the log
// does not take all of its volume.
func fullDisk(below string) (volume, error) {
	v, err := memory(below, "size=64m")
	v.breaks = func(*Bus) error {
		f, err := os.Create(filepath.Join(v.dir, "others"))
		if err != nil {
			return err
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		return unless(err, unix.ENOSPC)
	}
	v.mend = func(*Bus) error { return v.remount("size=128m") }
	return v, err
}

// noInodes takes no more files, though it has room.
func noInodes(below string) (volume, error) {
	v, err := memory(below, "size=64m,nr_inodes=200")
	v.breaks = func(*Bus) error {
		for n := 0; ; n++ {
			f, err := os.Create(filepath.Join(v.dir, fmt.Sprint("others", n)))
			if err != nil {
				return unless(err, unix.ENOSPC)
			}
			_ = f.Close()
		}
	}
	v.mend = func(*Bus) error { return v.remount("nr_inodes=2000") }
	return v, err
}

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// onDisk returns a volume on a real file system, that breaks so.
func onDisk(below string, spoil func(*Disk) error) (volume, error) {
	d, err := NewDisk(below, 96)
	if err != nil {
		return volume{}, err
	}
	return volume{
		dir: d.Dir, remove: d.Remove, quietly: true,
		breaks: func(*Bus) error { return spoil(d) },
		mend:   func(*Bus) error { return errors.Join(d.Unmount(), d.Mount()) },
	}, nil
}

// readOnly is what the kernel makes of a file system that it finds broken.
func readOnly(below string) (volume, error) { return onDisk(below, (*Disk).ReadOnly) }

// diskGone fails every access, until the disk is back with its synced data.
func diskGone(below string) (volume, error) { return onDisk(below, (*Disk).Cut) }

// failing lets system calls of the bus fail for a while.
func failing(calls string) func(string) (volume, error) {
	return func(below string) (volume, error) {
		v, err := onDisk(below, nil)
		v.quietly = false
		var strace *exec.Cmd
		v.breaks = func(b *Bus) error {
			strace = exec.CommandContext(context.Background(), "strace", "-qq", "-f", "-o", "/dev/null", "-p", fmt.Sprint(b.program.PID()),
				"-e", "trace="+calls, "-e", "inject="+calls+":error=EIO")
			return strace.Start()
		}
		v.mend = func(*Bus) error {
			if err := strace.Process.Signal(syscall.SIGINT); err != nil {
				return err
			}
			_ = strace.Wait() // its error is the signal
			return nil
		}
		return v, err
	}
}
