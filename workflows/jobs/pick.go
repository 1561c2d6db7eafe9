package jobs

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Turns has, by submitter, the number of the last turn. Its values only compare with each other.
type Turns map[string]uint64

// Pick returns the jobs that get the next n idle pods, in this order. Submitters take turns: the next job
// is of the one with a waiting job and the oldest last turn, of several without a turn the one
// with the oldest job. Of one submitter the oldest job is first (Older). It records the turns in turns, and
// changes nothing else.
func Pick(waiting []*crdv1.Job, n int, turns Turns) []*crdv1.Job {
	queues := map[string][]*crdv1.Job{}
	for _, j := range waiting {
		queues[Submitter(j)] = append(queues[Submitter(j)], j)
	}
	submitters := make([]string, 0, len(queues))
	last := uint64(0)
	for s, queue := range queues {
		slices.SortFunc(queue, Older)
		submitters = append(submitters, s)
	}
	for _, turn := range turns {
		last = max(last, turn)
	}
	var out []*crdv1.Job
	for len(out) < n && len(submitters) > 0 {
		next := slices.MinFunc(submitters, func(a, b string) int {
			return cmp.Or(cmp.Compare(turns[a], turns[b]), Older(queues[a][0], queues[b][0]))
		})
		out = append(out, queues[next][0])
		last++
		turns[next], queues[next] = last, queues[next][1:]
		if len(queues[next]) == 0 {
			submitters = slices.DeleteFunc(submitters, func(s string) bool { return s == next })
		}
	}
	return out
}

// Submitter returns the user that the queue counts a job for: the recorded author, which is the one that a
// control plane's agent names for the job of a user; empty if there is none.
func Submitter(j *crdv1.Job) string {
	author, _, _ := crdv1.AuthorOf(j.Annotations) // without a readable record there is no author
	return author.User
}

// Older compares two jobs by their place in a queue: jobs that a control plane numbered come first, by
// number; others by creation. Jobs with equal places are ordered by name.
func Older(a, b *crdv1.Job) int {
	x, isX := Sequence(a)
	y, isY := Sequence(b)
	switch {
	case isX && isY:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.Name, b.Name))
	case isX != isY && isX:
		return -1
	case isX != isY:
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Sequence returns the number that a control plane gave a job; false: it gave none.
func Sequence(j *crdv1.Job) (int64, bool) {
	n, err := strconv.ParseInt(j.Annotations[crdv1.AnnotationJobSequence], 10, 64)
	return n, err == nil
}

// Served returns the turns that the statuses of jobs show: those of a scheduler that has just started.
func Served(all []*crdv1.Job) Turns {
	type turn struct {
		at  int64
		uid types.UID
		of  string
	}
	var begun []turn
	for _, j := range all {
		if at := StartedAt(j.Status.State); at != nil {
			begun = append(begun, turn{at.Unix(), j.UID, Submitter(j)})
		}
	}
	slices.SortFunc(begun, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.uid, b.uid)) })
	out := Turns{}
	for i, t := range begun {
		out[t.of] = uint64(i + 1)
	}
	return out
}
