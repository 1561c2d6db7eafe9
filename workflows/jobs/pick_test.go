package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// queued returns a job of a user, created that many seconds after the first.
func queued(user string, name string, after int, sequence string) *crdv1.Job {
	j := &crdv1.Job{}
	j.Name, j.CreationTimestamp = name, metav1.NewTime(time.Unix(int64(after), 0))
	j.Annotations = map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: user}.String()}
	if sequence != "" {
		j.Annotations[crdv1.AnnotationJobSequence] = sequence
	}
	return j
}

func names(all []*crdv1.Job) string {
	return strings.Join(lists.Map(all, func(j *crdv1.Job) string { return j.Name }), " ")
}

func TestPick(t *testing.T) {
	for name, tt := range map[string]struct {
		waiting []*crdv1.Job
		n       int
		turns   jobs.Turns
		want    string
	}{
		"nothing waits":                {n: 3},
		"no pod":                       {waiting: []*crdv1.Job{queued("a", "a1", 1, "")}},
		"the oldest of one submitter":  {n: 2, waiting: []*crdv1.Job{queued("a", "a3", 3, ""), queued("a", "a1", 1, ""), queued("a", "a2", 2, "")}, want: "a1 a2"},
		"numbers before times":         {n: 3, waiting: []*crdv1.Job{queued("a", "a1", 1, ""), queued("a", "n2", 2, "10"), queued("a", "n1", 3, "9")}, want: "n1 n2 a1"},
		"turns":                        {n: 4, waiting: []*crdv1.Job{queued("a", "a1", 1, ""), queued("a", "a2", 2, ""), queued("a", "a3", 3, ""), queued("b", "b1", 4, "")}, want: "a1 b1 a2 a3"},
		"the turn of another":          {n: 1, turns: jobs.Turns{"a": 1}, waiting: []*crdv1.Job{queued("a", "a1", 1, ""), queued("b", "b1", 4, "")}, want: "b1"},
		"the turn that is longest ago": {n: 2, turns: jobs.Turns{"a": 7, "b": 3}, waiting: []*crdv1.Job{queued("a", "a1", 1, ""), queued("b", "b1", 4, "")}, want: "b1 a1"},
		"jobs without an author share a turn": {n: 3, waiting: []*crdv1.Job{
			{ObjectMeta: metav1.ObjectMeta{Name: "x1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "x2"}}, queued("b", "b1", 4, ""),
		}, want: "x1 b1 x2"},
	} {
		t.Run(name, func(t *testing.T) {
			turns := jobs.Turns{}
			for s, n := range tt.turns {
				turns[s] = n
			}
			if got := names(jobs.Pick(tt.waiting, tt.n, turns)); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// One user has queued 500 jobs when another queues 5: with one pod, the fifth of these is among the next 12 that
// start, whether the scheduler remembers the turns or has just started.
func TestAUserWithManyJobsDoesNotKeepOthersWaiting(t *testing.T) {
	var waiting []*crdv1.Job
	for i := range 500 {
		waiting = append(waiting, queued("a", fmt.Sprintf("a%03d", i), 0, ""))
	}
	started := jobs.Pick(waiting, 3, jobs.Turns{})
	waiting = waiting[3:]
	for i := range 5 {
		waiting = append(waiting, queued("b", fmt.Sprintf("b%d", i), 2, ""))
	}
	for i, j := range started {
		j.Status.State = &crdv1.JobState{Running: &crdv1.JobRunning{StartedAt: &metav1.Time{Time: time.Unix(int64(i), 0)}}}
	}
	turns, last := jobs.Served(started), 0
	for start := 1; start <= 20; start++ {
		one := jobs.Pick(waiting, 1, turns)[0]
		waiting = slices.DeleteFunc(waiting, func(j *crdv1.Job) bool { return j == one })
		if jobs.Submitter(one) == "b" {
			last = start
		}
	}
	if last == 0 || last > 12 || slices.ContainsFunc(waiting, func(j *crdv1.Job) bool { return jobs.Submitter(j) == "b" }) {
		t.Errorf("the last job of b was start %d", last)
	}
}

// No submitter gets two turns while another that has a waiting job gets none, and every job is picked once.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var waiting []*crdv1.Job
		for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
			waiting = append(waiting, queued(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"), fmt.Sprint(i), rapid.IntRange(0, 3).Draw(t, "at"), rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "sequence")))
		}
		turns, order := jobs.Turns{}, []string{}
		for len(waiting) > 0 {
			picked := jobs.Pick(waiting, rapid.IntRange(1, 5).Draw(t, "pods"), turns)
			if len(picked) == 0 {
				t.Fatal("none was picked")
			}
			for _, j := range picked {
				user, others := jobs.Submitter(j), map[string]bool{}
				for _, w := range waiting {
					if jobs.Submitter(w) == user && jobs.Older(w, j) < 0 {
						t.Fatalf("%s was picked before %s", j.Name, w.Name)
					}
					others[jobs.Submitter(w)] = true
				}
				if len(order) > 0 && order[len(order)-1] == user && len(others) > 1 {
					t.Fatalf("%s got two turns: %v", user, order)
				}
				order = append(order, user)
				waiting = slices.DeleteFunc(slices.Clone(waiting), func(w *crdv1.Job) bool { return w == j })
			}
		}
	})
}
