package encode

import (
	"cmp"
	"time"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Capture returns a capture as the API has it.
func Capture(c captures.Capture) (v2.Capture, error) {
	n := c.Progress.Counts
	counts := v2.CaptureCounts{
		Seen: int64(n.GetSeen()), Stored: int64(n.GetStored()), SampledOut: int64(n.GetSampledOut()), //nolint:gosec // numbers of requests
		Evicted: int64(n.GetEvicted()), Pending: int64(n.GetPending()), //nolint:gosec // the same
	}
	if len(n.GetLost()) > 0 {
		counts.Lost = map[string]int64{}
		for why, k := range n.GetLost() {
			counts.Lost[why] = int64(k) //nolint:gosec // the same
		}
	}
	spec := v2.CaptureSpec{Sandbox: c.Sandbox, Workload: text(c.Workload), Duration: text(c.Until.Sub(c.CreatedAt).Round(time.Second).String())}
	return v2.Capture{Name: c.Name, CreatedAt: stamp(c.CreatedAt), DeletedAt: when(c.DeletedAt), Spec: spec, Status: v2.CaptureStatus{
		Phase: c.Phase(), Cluster: text(c.Cluster), CreatedBy: text(cmp.Or(c.Author.Name, c.Author.ID)), EndedAt: when(c.EndedAt), Message: text(c.Message),
		Requests: c.Requests, Bytes: c.Bytes, Counts: counts, TestExecution: text(smarttests.ExecutionOf(c.Name)),
	}}, nil
}
