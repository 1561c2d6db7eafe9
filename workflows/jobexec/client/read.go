package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
)

// Streams are the output streams by name.
var Streams = map[string]jobexecv1.LogsRequest_Kind{"stdout": jobexecv1.LogsRequest_STDOUT, "stderr": jobexecv1.LogsRequest_STDERR}

// Stored is Client.Logs for a file that the operator has stored in its bucket. An interruption is an error.
func Stored(ctx context.Context, from jobexecv1.RunnersClient, r *jobexecv1.StoredRequest, write func(*jobexecv1.Chunk) error) (end uint64, err error) {
	return receive(ctx, r.GetOffset(), write, func(ctx context.Context, offset uint64) (grpc.ServerStreamingClient[jobexecv1.Chunk], error) {
		return from.Stored(ctx, &jobexecv1.StoredRequest{Job: r.GetJob(), Path: r.GetPath(), Offset: offset, TailLines: r.GetTailLines()})
	})
}

// Logs calls write with the output of an execution, in order, and returns the offset after the last byte. It
// continues there when the connection is interrupted. A chunk with a greater offset than expected follows bytes
// that are lost. An error of write is returned.
func (c *Client) Logs(ctx context.Context, r *jobexecv1.LogsRequest, write func(*jobexecv1.Chunk) error) (end uint64, err error) {
	tail := r.GetTailLines()
	return c.read(ctx, r.GetOffset(), write, func(ctx context.Context, offset uint64) (grpc.ServerStreamingClient[jobexecv1.Chunk], error) {
		if offset > r.GetOffset() {
			tail = 0
		}
		return c.ExecutorClient.Logs(ctx, &jobexecv1.LogsRequest{Ref: r.GetRef(), Kind: r.GetKind(), Offset: offset, Follow: r.GetFollow(), TailLines: tail})
	})
}

// Artifact is Logs for an artifact; its bytes are never lost.
func (c *Client) Artifact(ctx context.Context, r *jobexecv1.ArtifactRequest, write func(*jobexecv1.Chunk) error) (end uint64, err error) {
	return c.read(ctx, r.GetOffset(), write, func(ctx context.Context, offset uint64) (grpc.ServerStreamingClient[jobexecv1.Chunk], error) {
		return c.ExecutorClient.Artifact(ctx, &jobexecv1.ArtifactRequest{Ref: r.GetRef(), Path: r.GetPath(), Offset: offset})
	})
}

// Follow calls each with the status of an execution: at once and when it changes, until it is terminated and its artifacts are
// complete, or the stream is interrupted.
func (c *Client) Follow(ctx context.Context, r *jobexecv1.ExecutionRef, each func(*jobexecv1.Status)) error {
	stream, err := c.Watch(ctx, r)
	for err == nil {
		var st *jobexecv1.Status
		if st, err = stream.Recv(); err == nil {
			each(st)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// To returns a function for Logs and Artifact that writes text, with a line for bytes that are lost. from is the offset
// of the first byte that is requested; with tail lines it is not known, and whole is false.
func To(w io.Writer, from uint64, whole bool) func(*jobexecv1.Chunk) error {
	return func(c *jobexecv1.Chunk) error {
		if c.GetOffset() > from && whole {
			if _, err := io.WriteString(w, Marker(from, c.GetOffset())); err != nil {
				return err
			}
		}
		whole, from = true, c.GetOffset()+uint64(len(c.GetData()))
		_, err := w.Write(c.GetData())
		return err
	}
}

// Marker is the line that replaces bytes that are lost.
func Marker(from, to uint64) string {
	return fmt.Sprintf("\n[switchyard: the bytes from %d to %d of this output are lost: %d bytes]\n", from, to-1, to-from)
}

// pauses between two attempts.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// read opens streams until one of them ends without an error.
func (c *Client) read(ctx context.Context, at uint64, write func(*jobexecv1.Chunk) error,
	open func(context.Context, uint64) (grpc.ServerStreamingClient[jobexecv1.Chunk], error),
) (end uint64, err error) {
	until, pause := time.Now().Add(c.patience), firstPause
	for {
		before := at
		if at, err = receive(ctx, at, write, open); err == nil {
			return at, nil
		}
		if at > before {
			until, pause = time.Now().Add(c.patience), firstPause
		}
		if !interrupted(err) || time.Now().After(until) || !wake.Sleep(ctx, pause) {
			return at, errors.Join(err, c.Refusal())
		}
		pause = min(2*pause, lastPause)
	}
}

// receive receives one stream, and returns the offset after its last byte.
func receive(ctx context.Context, at uint64, write func(*jobexecv1.Chunk) error,
	open func(context.Context, uint64) (grpc.ServerStreamingClient[jobexecv1.Chunk], error),
) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx, at)
	if err != nil {
		return at, err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if chunk.GetOffset() < at {
			return at, fmt.Errorf("the runner sends byte %d after byte %d", chunk.GetOffset(), at)
		}
		if err := write(chunk); err != nil {
			return at, err
		}
		at = chunk.GetOffset() + uint64(len(chunk.GetData()))
	}
}

// interrupted reports whether a stream can be continued after an error.
func interrupted(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		return true
	}
	return false
}
