package smarttests

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

// fields are the filters that compare a text, by their name in queries.
var fields = map[string]func(model.TestExecution) string{
	"isAutoDiff": func(x model.TestExecution) string {
		return flag(ptr.Deref(contextOf(x).AutoDiff, v2.TestExecutionAutoDiff{}).Enabled)
	},
	"published":     func(x model.TestExecution) string { return flag(contextOf(x).Publish) },
	"targetSandbox": func(x model.TestExecution) string { return x.Sandbox },
	"targetRouteGroup": func(x model.TestExecution) string {
		return ptr.Deref(ptr.Deref(contextOf(x).Routing, v2.JobRoutingContext{}).Routegroup, "")
	},
	"targetRoutingKey": func(x model.TestExecution) string { return x.RoutingKey },
	"targetRevision":   func(x model.TestExecution) string { return strconv.FormatInt(x.Revision, 10) },
	"cluster":          func(x model.TestExecution) string { return x.Cluster },
	"testName":         func(x model.TestExecution) string { return x.Test },
	"executionPhase":   func(x model.TestExecution) string { return string(x.Status.Phase) },
	"runID":            func(x model.TestExecution) string { return x.RunID },
	"repo":             func(x model.TestExecution) string { return ptr.Deref(external(x).Repo, "") },
	"repoPath":         func(x model.TestExecution) string { return ptr.Deref(external(x).Path, "") },
	"repoBranch":       func(x model.TestExecution) string { return ptr.Deref(external(x).Branch, "") },
	"repoCommitSHA":    func(x model.TestExecution) string { return ptr.Deref(external(x).CommitSHA, "") },
	"triggerID":        func(x model.TestExecution) string { return ptr.Deref(trigger(x).ID, "") },
	"triggerWorkload": func(x model.TestExecution) string {
		w := ptr.Deref(trigger(x).SandboxOf, v2.WorkloadWorkload{})
		return strings.Join([]string{w.Kind, w.Namespace, w.Name}, "/")
	},
	"source": func(x model.TestExecution) string {
		if x.Spec.Hosted != nil {
			return "hosted"
		}
		return "external"
	},
}

func flag(b *bool) string { return strconv.FormatBool(ptr.Deref(b, false)) }

func contextOf(x model.TestExecution) v2.TestExecutionContext {
	return ptr.Deref(x.Spec.ExecutionContext, v2.TestExecutionContext{})
}

func external(x model.TestExecution) v2.ExternalSpec {
	return ptr.Deref(x.Spec.External, v2.ExternalSpec{})
}

func trigger(x model.TestExecution) v2.TestTrigger {
	return ptr.Deref(ptr.Deref(x.Status.TriggeredBy, v2.TestExecutionTriggeredBy{}).Trigger, v2.TestTrigger{})
}

// Filter returns the filter of a query, with the tests that exist. The error is specfile.Problems.
func Filter(q url.Values, exists func(test string) bool) (func(model.TestExecution) bool, error) {
	var problems specfile.Problems
	var all []func(model.TestExecution) bool
	for name, of := range fields {
		if want := q.Get(name); want != "" {
			all = append(all, func(x model.TestExecution) bool { return of(x) == want })
		}
	}
	for _, label := range q["label"] {
		name, want, is := strings.Cut(label, ":")
		if !is {
			problems.Add("label", "is %q: write NAME:VALUE", label)
		}
		all = append(all, func(x model.TestExecution) bool { value, has := x.Spec.Labels[name]; return has && value == want })
	}
	for name, holds := range map[string]func(at, bound time.Time) bool{
		"from": func(at, bound time.Time) bool { return !at.Before(bound) }, "to": time.Time.Before,
	} {
		if text := q.Get(name); text != "" {
			bound, err := time.Parse(time.RFC3339, text)
			if err != nil {
				problems.Add(name, "is %q: write a time such as 2026-11-30T12:00:00Z", text)
			}
			all = append(all, func(x model.TestExecution) bool { return holds(x.CreatedAt, bound) })
		}
	}
	if q.Get("skipDeletedTests") == "true" {
		all = append(all, func(x model.TestExecution) bool { return x.Spec.Hosted == nil || exists(x.Test) })
	}
	return func(x model.TestExecution) bool {
		return !slices.ContainsFunc(all, func(f func(model.TestExecution) bool) bool { return !f(x) })
	}, problems.OrNil()
}
