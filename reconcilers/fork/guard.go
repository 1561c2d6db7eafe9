package fork

import (
	"cmp"
	"fmt"
	"slices"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
)

// guardPowers refuses patches that give the fork more power than its baseline has:
// they are applied with the rights of the operator, which their author may not have.
// What counts is the result: a power that an earlier patch adds and a later one takes
// away is none.
func guardPowers(drafts []*draft, live *baseline.Workload, plan Plan) *Problem {
	first, last := drafts[0], len(drafts)-1
	refused := func(i int) []power.Grant {
		return slices.DeleteFunc(power.Added(&first.template, &drafts[i].template, plan.Running), func(g power.Grant) bool {
			return slices.Contains(plan.Powers, g.Power) || plan.answered(g)
		})
	}
	if last == 0 {
		return nil
	}
	wrong := refused(last)
	if len(wrong) == 0 {
		return nil
	}
	by := last // The patch that gave it, and no later one took away.
	for by > 1 && slices.Contains(refused(by-1), wrong[0]) {
		by--
	}
	here := patchPlace{index: by - 1, count: last, live: live}
	more := ""
	if len(wrong) > 1 {
		more = fmt.Sprintf(" (and %d more fields)", len(wrong)-1)
	}
	return problem(ReasonPatchNotAllowed,
		"%s gives the fork more power than its baseline has, by %s%s: change the patch, or, for every sandbox, let the operator's chart have %s: [%s]",
		here, wrong[0].Path, more, power.Setting, power.Names(wrong))
}

// answered reports whether another check covers a power: the admission webhook checks that the author can read
// the referenced objects. Plan.Resources is no such check, because the author of a ForkedWorkload can list any
// object as an output of a resource.
func (p Plan) answered(g power.Grant) bool { return p.AuthorAsked && g.Power == power.Secrets }

// Outputs returns the objects that the plan lists as outputs of the sandbox's resources. The list is
// trustworthy only in a plan made from a sandbox: a ForkedWorkload can list any object.
func (p Plan) Outputs() map[power.Read]bool {
	out := map[power.Read]bool{}
	for _, r := range p.Resources {
		out[power.Read{Kind: cmp.Or(r.OutputKind, defaultOutputKind), Name: r.ObjectName}] = true
	}
	return out
}
