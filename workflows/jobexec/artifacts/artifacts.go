// Package artifacts copies the files that a job names from the main container into the store of a runner: each with
// its checksum, size and content type, or the problem because of which it is not there. A problem never changes the
// outcome of the job.
//
// Names in the store are numbers, so that no path of a user is one of the store.
package artifacts

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
)

// Limits are those of the artifacts of a job: bytes of each and of all.
type Limits struct{ Each, All uint64 }

const (
	// MaxFiles is how many artifacts a job can have.
	MaxFiles = 1000
	// MaxSpecs is how many bytes the paths and metadata of a job have together.
	MaxSpecs = 512 << 10
	// maxPath bounds a path, in bytes.
	maxPath = 4095
	// sniffed is how much of a file decides its content type.
	sniffed = 512
)

// Source opens files of the main container (socket.Client).
type Source interface {
	// File opens a file, and returns its size.
	File(ctx context.Context, path string) (content io.ReadCloser, size int64, err error)
}

// Check returns why a path cannot be that of an artifact, as the rest of a sentence about the path.
func Check(name string) error {
	switch clean := path.Clean(name); {
	case name == "" || len(name) > maxPath:
		return fmt.Errorf("has %d bytes: a path has 1 to %d", len(name), maxPath)
	case strings.ContainsAny(name, "\x00\n"):
		return errors.New("has a zero byte or a line feed, which paths here cannot have")
	case clean == "." || clean == "/" || strings.HasSuffix(name, "/"):
		return errors.New("is a folder. Name a file")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return errors.New("has a part \"..\". Write the path without it")
	case strings.HasPrefix(name, "@"):
		return fmt.Errorf("begins with \"@\", as the names of the output streams do. Write ./%.64s", name)
	}
	return nil
}

// Refused returns why the artifacts of a job are too many.
func Refused(specs []*jobexecv1.ArtifactSpec) error {
	if len(specs) > MaxFiles {
		return fmt.Errorf("the job has %d artifacts, and at most %d are stored: pack files into an archive", len(specs), MaxFiles)
	}
	size := 0
	for _, s := range specs {
		size += len(s.GetPath())
		for k, v := range s.GetMeta() {
			size += len(k) + len(v)
		}
	}
	if size > MaxSpecs {
		return fmt.Errorf("the paths and metadata of artifacts have %d bytes together, and at most %d are accepted: shorten the metadata, or store it in a file", size, MaxSpecs)
	}
	return nil
}

// Collect copies artifacts into a folder, and returns their states in the same order. An artifact without a problem
// is at Path.
func Collect(ctx context.Context, dir string, specs []*jobexecv1.ArtifactSpec, from Source, limits Limits) []*jobexecv1.ArtifactState {
	var all []*jobexecv1.ArtifactState
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)) // of an attempt that a restart ended
	left, seen := limits.All, map[string]bool{}
	for i, spec := range specs {
		state := &jobexecv1.ArtifactState{Path: spec.GetPath(), Meta: spec.GetMeta()}
		all = append(all, state)
		problem := err
		if problem == nil {
			if problem = Check(spec.GetPath()); problem != nil {
				problem = fmt.Errorf("the path %w", problem)
			}
		}
		if problem == nil && seen[spec.GetPath()] {
			problem = errors.New("the job lists this path twice")
		}
		seen[spec.GetPath()] = true
		if problem == nil {
			problem = stored(ctx, Path(dir, i), state, from, Limits{limits.Each, left})
		}
		if problem != nil {
			state.Problem, state.Size, state.Sha256, state.ContentType = problem.Error(), 0, nil, ""
			_ = os.Remove(Path(dir, i)) // what there is of it
		}
		left -= state.Size
	}
	return all
}

// Path returns the file of an artifact by its number in the list of states.
func Path(dir string, number int) string { return filepath.Join(dir, strconv.Itoa(number)) }

// stored copies one artifact and sets its size, checksum and content type.
func stored(ctx context.Context, to string, state *jobexecv1.ArtifactState, source Source, limits Limits) error {
	content, size, err := source.File(ctx, state.GetPath())
	if err != nil {
		return err
	}
	defer content.Close()
	switch n := uint64(max(0, size)); {
	case size < 0:
		return errors.New("the size of the file is unknown")
	case n > limits.Each:
		return fmt.Errorf("the file has %d bytes: at most %d are stored", n, limits.Each)
	case n > limits.All:
		return fmt.Errorf("the file has %d bytes, and %d are left for the artifacts of the job", n, limits.All)
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return full(err)
	}
	from, sum := bufio.NewReaderSize(io.LimitReader(content, size), 32<<10), sha256.New()
	head, _ := from.Peek(sniffed) // an error is that of the next read
	head = bytes.Clone(head)
	n, err := io.Copy(io.MultiWriter(file, sum), from)
	if err = errors.Join(err, file.Close()); err != nil {
		return full(err)
	}
	if n != size {
		return fmt.Errorf("the file has become shorter while it was copied: %d bytes of %d", n, size)
	}
	state.Size, state.Sha256 = uint64(n), sum.Sum(nil)
	if state.ContentType = mime.TypeByExtension(path.Ext(state.GetPath())); state.ContentType == "" {
		state.ContentType = http.DetectContentType(head)
	}
	return nil
}

// full returns an error of a full disk in words.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.New("the volume of the runner is full")
	}
	return err
}
