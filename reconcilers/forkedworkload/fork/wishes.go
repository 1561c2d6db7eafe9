package fork

import "switchyard.dev/reconcilers/baseline"

// Wishes are what patches ask for beyond their baseline, as far as its author needs a
// right for it.
type Wishes struct {
	// Reads are the objects of the namespace that the fork gets the content of and the
	// baseline does not, each once.
	Reads []Read
	// Replicas is how many pods patches ask for; 1 where they leave it open.
	Replicas int32
}

// WishesOf returns what the patches of a plan ask for, whatever is allowed. A Problem
// means that nobody can say: they do not apply to the baseline as it is now.
func WishesOf(live *baseline.Workload, plan Plan) (Wishes, *Problem) {
	k, p := kindOf(live)
	if p != nil {
		return Wishes{}, p
	}
	plan.Powers = AllPowers()
	drafts, p := patched(k, live, plan)
	if p != nil {
		return Wishes{}, p
	}
	first, last := drafts[0], drafts[len(drafts)-1]
	g := &grants{base: &first.template.Spec, next: &last.template.Spec}
	g.reads()
	out := Wishes{Replicas: 1}
	for _, found := range g.found {
		out.Reads = append(out.Reads, found.read)
	}
	if last.sized && last.replicas != nil {
		out.Replicas = *last.replicas
	}
	return out, nil
}
