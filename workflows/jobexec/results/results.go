// Package results keeps the output streams and artifacts of jobs, in a local folder or in a bucket of S3. What a job has left is
// described by a manifest, which is written last: without one nothing is stored.
//
// A path that a job names is part of no path here: files are named by its SHA-256.
package results

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/layout"
)

// Spaces of paths: files of the job, and its output.
const (
	User   = "user"
	System = "system"
)

// Names of the output streams, in the space System.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Operator is the folder of the jobs that the operator of a cluster stores itself, by the UIDs of their objects.
const Operator = "jobs"

// OfOperator reports whether the operator stores what a job leaves: a control plane does for jobs that it has numbered.
func OfOperator(j *crdv1.Job) bool { return j.Annotations[crdv1.AnnotationJobSequence] == "" }

// Left reports whether a job has ended, and its runner has stored what it has left.
func Left(j *crdv1.Job) bool {
	e, s := j.Status.Execution, j.Status.State
	return s != nil && s.Terminated != nil && e != nil && e.Output != nil
}

// Backend keeps files. A key is a path of names without dots, below a folder for each organisation.
type Backend interface {
	// Put stores a file whole or not at all, in place of a former one.
	Put(ctx context.Context, key string, from io.Reader) error
	// Open opens a file; fs.ErrNotExist: there is none.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Delete deletes all files below a folder.
	Delete(ctx context.Context, folder string) error
}

// Limits bound the files of a job.
type Limits struct {
	// File is the maximum size of an artifact, Job that of all of a job, and Stream what a runner can send of an output stream, in
	// bytes; Files is the maximum number of artifacts.
	File, Job, Stream int64
	Files             int
}

// DefaultLimits are 1 GiB an artifact, 2 GiB and 1,000 files a job, and more of a stream than a runner keeps.
var DefaultLimits = Limits{File: 1 << 30, Job: 2 << 30, Stream: layout.StreamBytes, Files: 1000}

// Kept has what jobs have left.
type Kept struct {
	Backend Backend
	Limits  Limits
}

// Manifest describes what a job has left.
type Manifest struct {
	// Execution is the one that it is of.
	Execution int32     `json:"execution"`
	At        time.Time `json:"at"`
	Files     []File    `json:"files"`
}

// File is a stored file, or one with the problem for which it is not stored.
type File struct {
	Path        string            `json:"path"`
	Space       string            `json:"space"`
	Size        int64             `json:"size"`
	SHA256      []byte            `json:"sha256,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Problem     string            `json:"problem,omitempty"`
	// Head and TailFrom are the first byte that is missing of a stream, and the next one that is not; 0: none is missing. A
	// file has Marker bytes in their place.
	Head     uint64 `json:"head,omitempty"`
	TailFrom uint64 `json:"tailFrom,omitempty"`
	Marker   int    `json:"marker,omitempty"`
}

// File returns a file of the manifest; nil: there is none.
func (m Manifest) File(space, path string) *File {
	for i := range m.Files {
		if f := &m.Files[i]; f.Path == path && (space == "" || f.Space == space) {
			return f
		}
	}
	return nil
}

// manifest is the name of the file of a manifest.
const manifest = "manifest"

// key returns the key of a file of a job.
func key(org, job, space, path string) string {
	sum := sha256.Sum256([]byte(space + "/" + path))
	return org + "/" + job + "/" + hex.EncodeToString(sum[:])
}

// Manifest returns the manifest of a job; nil: it has none.
func (k *Kept) Manifest(ctx context.Context, org, job string) (*Manifest, error) {
	f, err := k.Backend.Open(ctx, org+"/"+job+"/"+manifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the manifest of job %s: %w", job, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var m Manifest
	if err := json.NewDecoder(f).Decode(&m); err != nil {
		return nil, fmt.Errorf("read the manifest of job %s: %w", job, err)
	}
	return &m, nil
}

// Finish stores the manifest of a job.
func (k *Kept) Finish(ctx context.Context, org, job string, m Manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return k.Backend.Put(ctx, org+"/"+job+"/"+manifest, bytes.NewReader(text))
}

// Open opens a stored file.
func (k *Kept) Open(ctx context.Context, org, job string, f *File) (io.ReadSeekCloser, error) {
	return k.Backend.Open(ctx, key(org, job, f.Space, f.Path))
}

// Delete deletes the files of a job.
func (k *Kept) Delete(ctx context.Context, org, job string) error {
	return k.Backend.Delete(ctx, org+"/"+job)
}

// Put stores a file that write writes, with its size and checksum, which it sets.
func (k *Kept) Put(ctx context.Context, org, job string, f *File, write func(io.Writer) error) error {
	from, to := io.Pipe()
	sum := &summed{to: to, sum: sha256.New()}
	go func() { _ = to.CloseWithError(write(sum)) }() // it is that of the reader
	err := k.Backend.Put(ctx, key(org, job, f.Space, f.Path), from)
	_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // write ends
	if err != nil {                                             // write may go on for a moment
		return err
	}
	f.Size, f.SHA256 = sum.n, sum.sum.Sum(nil)
	return nil
}

// summed counts and sums bytes.
type summed struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

// Write implements io.Writer.
func (s *summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.n += int64(n)
	_, _ = s.sum.Write(p[:n]) // a hash never fails
	return n, err
}

// Config is where files are kept: in a folder or in a bucket.
type Config struct {
	// Folder is a local folder, which is created if it does not exist.
	Folder string
	// S3 is a bucket, in place of a folder.
	S3 S3
	// Limits bound the files of a job. Default: each as in DefaultLimits.
	Limits Limits
}

// Open opens the place of a configuration; nil: it has none. The caller closes it.
func Open(c Config) (*Kept, error) {
	d := DefaultLimits
	limits := Limits{File: cmp.Or(c.Limits.File, d.File), Job: cmp.Or(c.Limits.Job, d.Job), Stream: cmp.Or(c.Limits.Stream, d.Stream), Files: cmp.Or(c.Limits.Files, d.Files)}
	switch {
	case c.S3.Bucket != "" && c.Folder != "":
		return nil, errors.New("artifacts are in a folder or in a bucket: configure one of them")
	case c.S3.Bucket != "":
		b, err := openBucket(c.S3)
		if err != nil {
			return nil, err
		}
		return &Kept{Backend: b, Limits: limits}, nil
	case c.Folder == "":
		return nil, nil
	}
	f, err := OpenFolder(c.Folder)
	if err != nil {
		return nil, err
	}
	return &Kept{Backend: f, Limits: limits}, nil
}

// Close closes the place, if it is a folder.
func (k *Kept) Close() error {
	if k == nil {
		return nil
	}
	if c, is := k.Backend.(io.Closer); is {
		return c.Close()
	}
	return nil
}
