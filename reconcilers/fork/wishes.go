package fork

import (
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
)

// Wishes are the powers and reads that patches request beyond their baseline, for which their author needs
// permission.
type Wishes struct {
	// Reads are the objects of the namespace that the fork gets the content of after any of
	// its patches and the baseline does not, each once. What a later patch takes away
	// counts: of another baseline it may take away something else.
	Reads []power.Read
	// Replicas is the number of pods that patches set; 1 if they leave it open.
	Replicas int32
}

// WishesOf returns the powers and reads that the patches of a plan request, whether or not they are
// allowed. It returns a Problem if the patches do not apply to the current baseline.
func WishesOf(live *baseline.Workload, plan Plan) (Wishes, *Problem) {
	k, p := kindOf(live)
	if p != nil {
		return Wishes{}, p
	}
	plan.Powers = power.All()
	drafts, p := patched(k, live, plan)
	if p != nil {
		return Wishes{}, p
	}
	last := drafts[len(drafts)-1]
	out := Wishes{Replicas: 1, Reads: readsOfAny(drafts)}
	if last.sized && last.replicas != nil {
		out.Replicas = *last.replicas
	}
	return out, nil
}

// readsOfAny returns the objects that any draft reads and the first, the baseline, does not.
func readsOfAny(drafts []*draft) []power.Read {
	var out []power.Read
	had := map[power.Read]bool{}
	for i, d := range drafts {
		for _, r := range power.Reads(&d.template.Spec) {
			if !had[r] && i > 0 {
				out = append(out, r)
			}
			had[r] = true
		}
	}
	return out
}
