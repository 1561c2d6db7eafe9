package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/script"
)

// deliverPause is the longest time between two attempts to deliver an output, and lookEvery the
// interval of checks for the result.
const (
	deliverPause = 2 * time.Second
	lookEvery    = 20 * time.Millisecond
)

// Deliver waits for the result of the main container and sends the outputs to the server. It
// returns nil when all outputs of the unit are stored, or when the script failed; then the
// outputs that exist are stored. ctx ends when the pod is terminated; it is respected until the
// script begins.
func Deliver(ctx context.Context, s Server, v Volume) *iocontext.Ending {
	c, err := s.client(deliverPause)
	if err != nil {
		return failed(iocontext.ServerUnreachable, "%v", err)
	}
	r, ending := v.await(ctx)
	if ending != nil {
		return ending
	}
	for _, output := range r.Outputs {
		value, err := v.output(output)
		if err != nil {
			return failed(iocontext.VolumeFailed, "output %s cannot be read: %v", output, err)
		}
		// The kubelet kills the container if this takes longer than the grace period.
		err = c.until(context.WithoutCancel(ctx), "PUT", "/outputs/"+output, value, func(io.Reader) error { return nil })
		final := (*iocontext.Refusal)(nil)
		switch {
		case err == nil:
		case !errors.As(err, &final):
			return failed(iocontext.ServerUnreachable, "output %s is not kept: %v", output, err)
		case ending == nil:
			ending = failed(final.Reason, "output %s is refused: %s", output, final.Message)
		}
	}
	switch {
	case r.ExitCode != 0:
		return nil // the main container reports the failure
	case r.Reason != "":
		return &iocontext.Ending{Reason: r.Reason, Message: r.Message, Tail: r.Tail}
	}
	return ending
}

// await waits for the result. The main container may end without one.
func (v Volume) await(ctx context.Context) (result, *iocontext.Ending) {
	for {
		gone, err := v.mainGone()
		var r result
		there, wrong := v.take(iocontext.ResultPath, &r)
		switch {
		case wrong != nil:
			return r, failed(iocontext.VolumeFailed, "the result of the main container cannot be read: %v", wrong)
		case there:
			return r, nil
		case err != nil:
			return r, failed(iocontext.VolumeFailed, "the state of the main container cannot be read: %v", err)
		case gone:
			return r, failed(iocontext.MainKilled, "the main container was killed before it left a result: see its status")
		}
		if _, err := os.Lstat(v.in(begunPath)); err != nil && ctx.Err() != nil {
			return r, failed(iocontext.MainKilled, "the pod ended before the script began")
		}
		time.Sleep(lookEvery)
	}
}

// output reads the value of an output.
func (v Volume) output(name string) ([]byte, error) {
	if filepath.Base(name) != name {
		return nil, errors.New("its name is a path")
	}
	f, err := v.open(path.Join(iocontext.OutputsDir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, iocontext.MaxValue+1))
}

// open opens a file of the layout and follows no link, neither to the file nor in the path from
// the volume's root to it: the script can write the volume, and must not make this container send
// its own files. Pipes do not block.
func (v Volume) open(name string) (*os.File, error) {
	rest, err := filepath.Rel(iocontext.Root, name)
	if err != nil {
		return nil, err
	}
	at, err := syscall.Open(v.in(iocontext.Root), syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: v.in(iocontext.Root), Err: err}
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		flags := syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
		if i < len(parts)-1 {
			flags |= syscall.O_DIRECTORY
		}
		next, err := syscall.Openat(at, part, flags, 0)
		if err = errors.Join(err, syscall.Close(at)); err != nil {
			return nil, &fs.PathError{Op: "open", Path: v.in(name), Err: err}
		}
		at = next
	}
	return os.NewFile(uintptr(at), v.in(name)), nil
}

// mainGone reports whether the wrapper was running and is not any more.
func (v Volume) mainGone() (bool, error) {
	f, err := v.open(begunPath)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	locked, err := script.Locked(f)
	return !locked && err == nil, err
}

// Container is the main function of a container that asks the server. It calls work with a
// context that ends at SIGTERM, and writes the termination message if work returns an ending.
func Container(name string, work func(context.Context, Server) *iocontext.Ending) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var ending *iocontext.Ending
	if s, err := FromEnv(os.Getenv); err != nil {
		ending = failed(iocontext.ServerUnreachable, "%v", err)
	} else {
		s.Log = func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), name, fmt.Sprintf(format, args...))
		}
		if ending = work(ctx, s); ending == nil {
			return
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", name, ending.Reason, ending.Message)
	if err := Ended(TerminationPath, *ending); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(1)
}

// collect copies the outputs that the script has left, and lists them in the result. It returns
// their values. The problem of an output becomes the result's reason, unless the script failed.
// whole is false when a value was not read to its end: then it is unknown which part of it the
// script has printed.
func (m Main) collect(p plan, r *result) (given []value, whole bool) {
	whole = true
	for _, output := range p.Outputs {
		content, err := readOutput(output.Path)
		wrong, message := "", ""
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			wrong, message = iocontext.OutputMissing, fmt.Sprintf("the script ended with 0 and left no file %s, which is to hold output %s: have it write that file", output.Path, output.Name)
		case errors.Is(err, errTooLarge):
			whole = false
			wrong, message = iocontext.OutputTooLarge, fmt.Sprintf("file %s has more than the %d bytes that output %s may have: store large data elsewhere, and give its address",
				output.Path, iocontext.MaxValue, output.Name)
		case err != nil:
			wrong, message = iocontext.OutputNotAFile, fmt.Sprintf("output %s cannot be read: %v", output.Name, err)
		}
		if wrong == "" {
			given = append(given, value{output.Name, content})
			// The API server accepts no unit with a slash in a name.
			if err = script.Put(filepath.Join(m.Volume.in(iocontext.OutputsDir), filepath.Base(output.Name)), content, 0o644); err != nil {
				wrong, message = iocontext.VolumeFailed, fmt.Sprintf("output %s cannot be written to %s: %v", output.Name, iocontext.OutputsDir, err)
			} else {
				r.Outputs = append(r.Outputs, output.Name)
			}
		}
		if wrong != "" && r.Reason == "" {
			r.Reason, r.Message = wrong, message
		}
	}
	return given, whole
}

var errTooLarge = errors.New("too large")

// readOutput reads an output file. The path may be anything, such as a pipe: it does not block.
func readOutput(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file: it is %s", path, about.Mode().Type())
	}
	content, err := io.ReadAll(io.LimitReader(f, iocontext.MaxValue+1))
	if err == nil && len(content) > iocontext.MaxValue {
		err = errTooLarge
	}
	return content, err
}
