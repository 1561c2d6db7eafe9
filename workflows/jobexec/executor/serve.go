package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/workflows/jobexec/socket"
)

const (
	// waits is how long a request waits for output, or for another version of a status.
	waits         = 20 * time.Second
	headerTimeout = time.Minute
	// lastAnswer is how long the response to the last request can take.
	lastAnswer = time.Second
)

// Serve is the process of the main container: it serves the socket in a volume until ctx ends and the current
// execution was ended, read and deleted. environ is the environment of scripts, without the variables of a request.
// One process has one Serve: it waits for all children.
func Serve(ctx context.Context, dir string, environ []string, log func(format string, args ...any)) error {
	// The reader of the log may have closed. A signal that is received, not ignored, has its effect in scripts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	v := volume(dir)
	e, err := newExecutor(v, environ, log)
	if err != nil {
		return err
	}
	s := newServer(e)
	if err := s.open(); err != nil {
		return err
	}
	<-ctx.Done()
	over := context.WithoutCancel(ctx)
	e.terminate(over)
	over, cancel := context.WithTimeout(over, lastAnswer)
	defer cancel()
	return errors.Join(s.http.Shutdown(over), s.http.Close())
}

// server listens at the path of a volume, which scripts can remove or replace.
type server struct {
	volume volume
	path   string
	http   *http.Server

	mu       sync.Mutex
	listener net.Listener
	about    os.FileInfo
}

// newServer returns the server of an executor, which restores it after each script. It serves once it is opened.
func newServer(e *executor) *server {
	s := &server{volume: e.volume, path: e.volume.in(socket.Path), http: &http.Server{Handler: handler(e), ReadHeaderTimeout: headerTimeout}}
	e.restore = func() {
		if err := s.open(); err != nil {
			e.log("after a script, the socket cannot be opened again: %v", err)
		}
	}
	return s
}

// open opens the server, or opens again what a script has changed.
func (s *server) open() error { return errors.Join(s.volume.prepare(), s.listen()) }

// listen listens, unless the path is its socket.
func (s *server) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := os.Lstat(s.path); err == nil && s.about != nil && os.SameFile(now, s.about) {
		return os.Chmod(s.path, 0o666) // any user of the containers
	}
	if err := os.RemoveAll(s.path); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	about, err := os.Lstat(s.path)
	if err = errors.Join(err, os.Chmod(s.path, 0o666)); err != nil {
		return errors.Join(err, l.Close())
	}
	if s.listener != nil {
		_ = s.listener.Close() // connections stay
	}
	s.listener, s.about = l, about
	go func() { _ = s.http.Serve(l) }() // until it is closed
	return nil
}

// handler answers the requests that package socket describes.
func handler(e *executor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/executor", answer(func(*http.Request, socket.Ref) (any, error) { return e.state(), nil }))
	mux.HandleFunc("PUT /v1/executions/{job}/{execution}", answer(func(r *http.Request, ref socket.Ref) (any, error) {
		var request socket.Request
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, socket.MaxRequest)).Decode(&request); err != nil {
			return nil, refusal(socket.BadRequest, "the request cannot be read: %v", err)
		}
		return e.begin(ref, request)
	}))
	mux.HandleFunc("POST /v1/executions/{job}/{execution}/stop", answer(func(_ *http.Request, ref socket.Ref) (any, error) { return e.stop(ref) }))
	mux.HandleFunc("GET /v1/executions/{job}/{execution}", answer(func(r *http.Request, ref socket.Ref) (any, error) {
		after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64) // none: 0, which no status has
		ctx, cancel := context.WithTimeout(r.Context(), waits)
		defer cancel()
		return e.status(ctx, ref, after)
	}))
	mux.HandleFunc("DELETE /v1/executions/{job}/{execution}", answer(func(_ *http.Request, ref socket.Ref) (any, error) { return struct{}{}, e.forget(ref) }))
	for _, name := range []socket.Stream{socket.Stdout, socket.Stderr} {
		mux.HandleFunc("GET /v1/executions/{job}/{execution}/"+string(name), func(w http.ResponseWriter, r *http.Request) {
			if err := e.sendOutput(w, r, name); err != nil {
				fail(w, err)
			}
		})
	}
	mux.HandleFunc("GET /v1/file", func(w http.ResponseWriter, r *http.Request) {
		if err := e.sendFile(w, r.URL.Query().Get("path")); err != nil {
			fail(w, err)
		}
	})
	return mux
}

// jobs are the valid UIDs of jobs.
var jobs = regexp.MustCompile(`^[0-9A-Za-z-]{1,63}$`)

// refOf returns the execution of a request's path.
func refOf(r *http.Request) (socket.Ref, error) {
	n, err := strconv.ParseUint(r.PathValue("execution"), 10, 32)
	if job := r.PathValue("job"); err == nil && n > 0 && jobs.MatchString(job) {
		return socket.Ref{Job: job, Execution: uint32(n)}, nil //nolint:gosec // It has 32 bits.
	}
	return socket.Ref{}, refusal(socket.BadRequest, "%s names no execution", r.URL.Path)
}

// answer answers with a value as JSON. The execution is that of the path, if it has one.
func answer(of func(*http.Request, socket.Ref) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ref socket.Ref
		var err error
		if r.PathValue("job") != "" {
			ref, err = refOf(r)
		}
		var value any
		if err == nil {
			value, err = of(r, ref)
		}
		if err != nil {
			fail(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(value) // the client may have closed the connection
	}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	why, is := errors.AsType[*socket.Refusal](err)
	if !is {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(why) // the client may have closed the connection
}

// chunks are buffers for output.
var chunks = sync.Pool{New: func() any { return new([socket.MaxChunk]byte) }}

// sendOutput acknowledges the output before an offset, and sends the next part.
func (e *executor) sendOutput(w http.ResponseWriter, r *http.Request, name socket.Stream) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	from, err := e.output(ref, name)
	if err != nil {
		return err
	}
	offset, err := strconv.ParseUint(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || !from.acknowledge(offset) {
		return refusal(socket.BadRequest, "offset %q is no number, or beyond the end of %s", r.URL.Query().Get("offset"), name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), waits)
	defer cancel()
	chunk := chunks.Get().(*[socket.MaxChunk]byte)
	defer chunks.Put(chunk)
	at, n, end := from.read(ctx, chunk[:])
	w.Header().Set(socket.HeaderOffset, strconv.FormatUint(at, 10))
	w.Header().Set(socket.HeaderEnd, strconv.FormatBool(end))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(chunk[:n]) // the client may have closed the connection
	return nil
}

// sendFile sends a file of the container. If it has become shorter, the connection is closed.
func (e *executor) sendFile(w http.ResponseWriter, path string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(home(e.environ), path)
	}
	f, size, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.CopyN(w, f, size) // the server closes the connection after less
	return nil
}
