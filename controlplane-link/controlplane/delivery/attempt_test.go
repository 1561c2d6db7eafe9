package delivery

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestDecideJob(t *testing.T) {
	now := time.Unix(1000000, 0)
	row := func(change ...func(*model.Job)) model.Job {
		j := model.Job{Sequence: 5, Generation: 5, Attempt: model.Attempt{Phase: model.PhaseQueued}}
		for _, c := range change {
			c(&j)
		}
		return j
	}
	attempted := func(ago time.Duration) func(*model.Job) {
		return func(j *model.Job) { j.Attempted = now.Add(-ago) }
	}
	seen := func(j *model.Job) { j.Attempt.Seen, j.Attempted = true, now }
	final := func(j *model.Job) { j.Attempt.Phase = model.PhaseSucceeded }
	deleted := func(j *model.Job) { j.DeletedAt = now }
	canceled := func(j *model.Job) { j.Generation = 8 }
	refused := func(j *model.Job) { j.Attempt.Reason = "Forbidden" }
	object := func(sequence, generation int) *crdv1.Job {
		return &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			crdv1.AnnotationJobSequence: strconv.Itoa(sequence), crdv1.AnnotationGeneration: strconv.Itoa(generation),
		}}}
	}
	ending := object(5, 5)
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		j                 model.Job
		o                 *crdv1.Job
		listed, confirmed step
	}{
		"a new row":                              {row(), nil, confirm, apply},
		"a write without an answer":              {row(attempted(time.Hour)), nil, confirm, apply},
		"a write without an answer, long ago":    {row(attempted(13 * time.Hour)), nil, confirm, missing},
		"a write that was refused, long ago":     {row(attempted(13*time.Hour), refused), nil, confirm, apply},
		"it was deleted in the cluster":          {row(seen), nil, confirm, missing},
		"the object":                             {row(seen), object(5, 5), observe, observe},
		"a cancelation":                          {row(seen, canceled), object(5, 5), apply, apply},
		"a cancelation that was written":         {row(seen, canceled), object(5, 8), observe, observe},
		"a cancelation of a job that has ended":  {row(seen, final, canceled), object(5, 5), observe, observe},
		"a job that has ended":                   {row(seen, final), nil, observe, observe},
		"an object of another row":               {row(), object(4, 4), confirm, foreign},
		"an object of another row, of one ended": {row(final), object(4, 4), observe, observe},
		"a tombstone":                            {row(seen, deleted), object(5, 5), remove, remove},
		"a tombstone of an object that ends":     {row(seen, deleted), ending, observe, observe},
		"a tombstone without an object":          {row(seen, final, deleted), nil, confirm, finish},
		"a tombstone, and another's object":      {row(seen, deleted), object(4, 4), confirm, finish},
	} {
		if got := decideJob(c.j, c.o, false, now); got != c.listed {
			t.Errorf("%s, in a list: step %d, not %d", name, got, c.listed)
		}
		if got := decideJob(c.j, c.o, true, now); got != c.confirmed {
			t.Errorf("%s: step %d, not %d", name, got, c.confirmed)
		}
	}
}

func TestAttemptOf(t *testing.T) {
	of := func(canceled bool, status string) model.Attempt {
		o, j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, model.Job{}
		if err := yaml.UnmarshalStrict([]byte("{"+status+"}"), &o.Status); err != nil {
			t.Fatalf("%v in %s", err, status)
		}
		if canceled {
			j.CanceledAt = time.Unix(1, 0)
		}
		return attemptOf(o, j)
	}
	const began = `execution: {count: 2, podUID: p, begun: true, output: {state: Kept}}, runner: {runnerPod: {namespace: shop, name: r}}, `
	for name, c := range map[string]struct {
		canceled bool
		status   string
		phase    model.Phase
		by       string
		output   string
	}{
		"no status":                      {status: "", phase: model.PhaseQueued},
		"waiting":                        {status: `state: {waiting: {reason: SandboxNotReady, message: m}}`, phase: model.PhaseQueued},
		"running":                        {status: began + `state: {running: {}}`, phase: model.PhaseRunning, output: "Kept"},
		"succeeded":                      {status: began + `state: {terminated: {success: true, canceled: false, exitCode: 0}}`, phase: model.PhaseSucceeded, output: "Kept"},
		"failed":                         {status: began + `state: {terminated: {success: false, canceled: false, exitCode: 3}}`, phase: model.PhaseFailed, output: "Kept"},
		"an outcome that is not known":   {status: began + `state: {terminated: {success: false, canceled: false, reason: ExecutorLost, retryable: true}}`, phase: model.PhaseFailed, output: "Kept"},
		"a timeout":                      {status: began + `state: {terminated: {success: false, canceled: false, timedOut: true}}`, phase: model.PhaseCanceled, by: "timeout", output: "Kept"},
		"canceled by request":            {true, began + `state: {terminated: {success: false, canceled: true}}`, model.PhaseCanceled, "apiRequest", "Kept"},
		"canceled in the cluster":        {status: `state: {terminated: {success: false, canceled: true, reason: Canceled}}`, phase: model.PhaseCanceled, by: "apiRequest"},
		"its sandbox was deleted":        {status: `state: {terminated: {success: false, canceled: true, reason: SandboxDeleted}}`, phase: model.PhaseCanceled, by: "internal"},
		"its output was lost":            {status: `execution: {count: 1, begun: true, output: {state: Lost}}, state: {terminated: {success: true, canceled: false}}`, phase: model.PhaseSucceeded, output: "Lost"},
		"assigned, and not begun":        {status: `execution: {count: 1, podUID: p}, state: {waiting: {}}`, phase: model.PhaseQueued},
		"canceled, but it had succeeded": {true, began + `state: {terminated: {success: true, canceled: false, exitCode: 0}}`, model.PhaseSucceeded, "", "Kept"},
	} {
		got := of(c.canceled, c.status)
		if got.Phase != c.phase || got.CanceledBy != c.by || got.Output != c.output || !got.Seen || got.UID != "u" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := of(false, began+`state: {terminated: {success: false, canceled: false, exitCode: 3, message: m}}`); *got.ExitCode != 3 || got.Message != "m" || got.Executions != 2 || got.PodName != "r" || got.PodUID != "p" {
		t.Errorf("%+v", got)
	}
}
