package results_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
)

// endless is the runner of a user that took over its container: its streams do not end.
type endless struct{ jobexecv1.ExecutorClient }

func (endless) Artifacts(context.Context, *jobexecv1.ExecutionRef, ...grpc.CallOption) (*jobexecv1.ArtifactList, error) {
	return &jobexecv1.ArtifactList{Complete: true}, nil
}

func (endless) Release(context.Context, *jobexecv1.ExecutionRef, ...grpc.CallOption) (*jobexecv1.Status, error) {
	return &jobexecv1.Status{Released: true}, nil
}

func (endless) Logs(context.Context, *jobexecv1.LogsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[jobexecv1.Chunk], error) {
	return &chunks{}, nil
}

type chunks struct {
	grpc.ServerStreamingClient[jobexecv1.Chunk]
	at uint64
}

func (c *chunks) Recv() (*jobexecv1.Chunk, error) {
	defer func() { c.at += 1 << 10 }()
	return &jobexecv1.Chunk{Offset: c.at, Data: make([]byte, 1<<10)}, nil
}

// A stream that does not end is not stored, and its reason is.
func TestAnEndlessStreamIsNotStored(t *testing.T) {
	k, err := results.Open(results.Config{Folder: t.TempDir(), Limits: results.Limits{Stream: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := runners.NewAuthority(t).PEM()
	if err != nil {
		t.Fatal(err)
	}
	from, err := client.New(client.Runner{Address: "127.0.0.1:1", PodUID: "p", Authority: authority})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	from.ExecutorClient = endless{}
	c := results.Collection{Kept: k, Org: "jobs", Job: "j", Ref: &jobexecv1.ExecutionRef{JobUid: "j", Execution: 1}, From: from}
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := k.Manifest(t.Context(), "jobs", "j")
	if err != nil || m == nil || len(m.Files) != 2 {
		t.Fatal(m, err)
	}
	for _, f := range m.Files {
		if !strings.Contains(f.Problem, "more than 1048576 bytes") || f.Size != 0 {
			t.Errorf("%+v", f)
		}
		if _, err := k.Open(t.Context(), "jobs", "j", &f); err == nil {
			t.Errorf("%s is stored", f.Path)
		}
	}
}
