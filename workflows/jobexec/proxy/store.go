package proxy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/output"
	"switchyard.dev/workflows/jobexec/socket"
)

// Files of an execution, in a folder of its own.
const (
	requestFile   = "request"   // RunRequest, with the instance of the executor in its fence
	resultFile    = "result"    // Status, without artifacts
	artifactsFile = "artifacts" // Status, with artifacts only
	artifactsDir  = "files"
	stdoutDir     = "stdout"
	stderrDir     = "stderr"
)

const (
	// resultBytes is the space that is reserved for a result.
	resultBytes = 64 << 10
	// stateBytes is the space that is reserved for the state of each artifact, beside its path and metadata.
	stateBytes = 1 << 10
	// streamBytes is what the output of an execution may need.
	streamBytes = layout.StreamBytes + 4<<20
)

// jobUID matches UIDs of Jobs, which are names of folders here.
var jobUID = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z-]{0,62}$`)

// ref names an execution.
type ref struct{ socket.Ref }

func refOf(r *jobexecv1.ExecutionRef) ref {
	return ref{socket.Ref{Job: r.GetJobUid(), Execution: r.GetExecution()}}
}

func (r ref) proto() *jobexecv1.ExecutionRef {
	return &jobexecv1.ExecutionRef{JobUid: r.Job, Execution: r.Execution}
}

// String returns the name of the folder.
func (r ref) String() string { return fmt.Sprintf("%s_%d", r.Job, r.Execution) }

// store is the folder with the files of all executions.
type store struct{ dir string }

// folder returns that of an execution.
func (s store) folder(r ref) string { return filepath.Join(s.dir, r.String()) }

// list returns the executions in the store, oldest first.
func (s store) list() ([]ref, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read the store: %w", err)
	}
	age := func(e fs.DirEntry) int64 {
		info, err := os.Stat(filepath.Join(s.dir, e.Name(), requestFile))
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return int(min(1, max(-1, age(a)-age(b)))) })
	var all []ref
	for _, e := range entries {
		job, number, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && jobUID.MatchString(job) {
			all = append(all, ref{socket.Ref{Job: job, Execution: uint32(n)}})
		}
	}
	return all, nil
}

// create stores the request of an execution, and reserves the space for its result.
func (s store) create(r ref, request *jobexecv1.RunRequest) error {
	dir := s.folder(r)
	states := proto.Size(&jobexecv1.RunRequest{Artifacts: request.GetArtifacts()}) + len(request.GetArtifacts())*stateBytes
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = errors.Join(reserve(filepath.Join(dir, resultFile), resultBytes), reserve(filepath.Join(dir, artifactsFile), int64(states)))
	}
	if err == nil {
		err = replace(filepath.Join(dir, requestFile), request)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store the request: %w", err), os.RemoveAll(dir))
	}
	return nil
}

// open returns an execution as the store has it; nil if its request was not stored.
func (s store) open(r ref) (*execution, error) {
	e := &execution{ref: r, dir: s.folder(r), request: &jobexecv1.RunRequest{}}
	if err := read(filepath.Join(e.dir, requestFile), e.request); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, os.RemoveAll(e.dir)
		}
		return nil, err
	}
	for i, name := range []string{stdoutDir, stderrDir} {
		var err error
		if e.streams[i], err = output.Open(filepath.Join(e.dir, name), output.Default); err != nil {
			return nil, err
		}
	}
	e.status = &jobexecv1.Status{Ref: r.proto(), Phase: jobexecv1.Status_WAITING}
	result, files := &jobexecv1.Status{}, &jobexecv1.Status{}
	switch err := read(filepath.Join(e.dir, resultFile), result); {
	case err == nil:
		e.status = result
		for i, total := range []uint64{result.GetStdout().GetTotal(), result.GetStderr().GetTotal()} {
			if err := e.streams[i].Close(total); err != nil {
				return nil, err
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	switch err := read(filepath.Join(e.dir, artifactsFile), files); {
	case err == nil:
		e.status.Artifacts, e.status.ArtifactsComplete = files.GetArtifacts(), true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return e, nil
}

// size returns how many bytes an execution has in the store.
func (s store) size(r ref) (bytes uint64) {
	_ = filepath.WalkDir(s.folder(r), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was deleted in the meantime
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += uint64(info.Size())
		}
		return nil
	})
	return bytes
}

// next is the suffix of a file that replaces another one.
const next = ".next"

// reserve reserves the space that a later replace of the file needs.
func reserve(path string, size int64) error {
	f, err := os.OpenFile(path+next, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, max(1, size))
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, size)) // a file system that cannot promise space
	}
	return errors.Join(err, f.Close())
}

// replace writes a message into a file, durably and as a whole.
func replace(path string, message proto.Message) error {
	content, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+next, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Truncate(int64(len(content)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+next, path)
	}
	if err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// read reads a message from a file.
func read(path string, into proto.Message) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(content, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
