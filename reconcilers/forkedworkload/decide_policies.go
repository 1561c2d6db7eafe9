package forkedworkload

import (
	"fmt"
	"regexp"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/reserved"
	"switchyard.dev/reconcilers/policies"
)

// Reasons of crdv1.ConditionPoliciesApply.
const (
	// ReasonPolicyNotApplied: a policy applies to the baseline and not to the fork.
	ReasonPolicyNotApplied = "PolicyNotApplied"
	// ReasonPolicyObserves: so does an object that protects nothing, such as a PodMonitor.
	ReasonPolicyObserves = "PolicyObserves"
	// ReasonPolicyExcludesForks: so does a policy that excludes forks by a label that all have.
	ReasonPolicyExcludesForks = "PolicyExcludesForks"
	// ReasonPolicyUnclear: an object of a kind in policies.kinds applies by no field that is read.
	ReasonPolicyUnclear = "PolicyUnclear"
	// ReasonPoliciesUnreadable: it is not known which policies there are.
	ReasonPoliciesUnreadable = "PoliciesUnreadable"
)

// mostPolicies is the maximum number of further policies in the condition.
const mostPolicies = 3

// policiesApply returns the condition about policies that apply to the baseline and not to the
// fork, if there is something to report. refused reports whether the fork may not run for that.
func (in Input) policiesApply(clone *fork.Fork) (c condition.Condition, found, refused bool) {
	passed := policies.OnWorkload(in.Policies, policies.Workload{
		Namespace: in.Workload.Namespace, Labels: in.Baseline.Template.Labels, Fork: clone.Template.Labels, Services: in.baselineServices(),
	})
	if len(passed) == 0 && in.PoliciesUnread != nil {
		return condition.Unknown(ReasonPoliciesUnreadable, fmt.Sprintf("Policies that may select the pods of %s cannot be read: %v. Allow the controller manager to list them.", in.baselineName(), in.PoliciesUnread)), true, false
	}
	if len(passed) == 0 {
		return condition.Condition{}, false, false
	}
	first, reason, likewise := passed[0], ReasonPolicyNotApplied, ""
	switch {
	case first.Observes():
		reason = ReasonPolicyObserves
	case first.Policy.Unclear():
		reason = ReasonPolicyUnclear
	case first.ForksExcluded():
		reason = ReasonPolicyExcludesForks
	}
	if len(passed) > 1 {
		others := lists.Map(passed[1:], func(p policies.Passed) string { return p.Policy.String() })
		likewise = " (likewise " + condition.List(others, mostPolicies, ", ") + ")"
	}
	fact, remedy := in.passedBy(first, clone)
	status := condition.False
	if first.Policy.Unclear() {
		status = condition.Unknown
	}
	return status(reason, fact+likewise+". "+remedy), true, in.RefusePolicies && !first.OnlyReported()
}

// notePolicies adds the condition about policies that do not apply to a fork, and reports whether
// the fork may not run for that: then it is not accepted. clone is nil for no fork.
func (in Input) notePolicies(to condition.Set, clone *fork.Fork) (refused bool) {
	if clone == nil {
		return false
	}
	c, found, refused := in.policiesApply(clone)
	if found {
		to[crdv1.ConditionPoliciesApply] = c
	}
	if refused {
		to[crdv1.ConditionAccepted] = condition.False(c.Reason, c.Message)
	}
	return refused
}

// passedBy returns which policy does not apply to the fork, a sentence without its end, and the
// remedy.
func (in Input) passedBy(p policies.Passed, clone *fork.Fork) (fact, remedy string) {
	switch {
	case p.Service != "":
		return fmt.Sprintf("%s targets Service %s of %s and does not apply to the Service of the fork", p.Policy, p.Service, in.baselineName()),
			"Select pods with the policy, or attach it to a Gateway."
	case p.Policy.Unclear():
		return fmt.Sprintf("%s has none of the fields that are read (%s), so it is not known whether it applies to the fork of %s", p.Policy, policies.ReadFields, in.baselineName()),
			fmt.Sprintf("Check it, and remove %s from policies.kinds if it does.", p.Policy.Kind.GroupKind())
	case p.ForksExcluded():
		return fmt.Sprintf("%s selects the pods of %s and excludes forks by label %s", p.Policy, in.baselineName(), strings.Join(p.Excluded, ", ")),
			"Change its selector if it has to apply to forks."
	case len(p.Excluded) > 0:
		return fmt.Sprintf("%s selects the pods of %s and excludes the fork by label %s, which its specification sets", p.Policy, in.baselineName(), strings.Join(p.Excluded, ", ")),
			"Remove the label from the patches of the sandbox."
	}
	fact = fmt.Sprintf("%s selects the pods of %s by label %s, which the fork lacks, so it does not apply to the fork", p.Policy, in.baselineName(), strings.Join(p.Labels, ", "))
	taken := reserved.Keys(in.Baseline, in.neighbours(), in.Budgets)
	kept := lists.Merged(clone.Template.Labels)
	var expressions []string
	reservedBy := ""
	for _, key := range p.Labels {
		kept[key] = in.Baseline.Template.Labels[key]
		expressions = append(expressions, "^"+regexp.QuoteMeta(key)+"$")
		if by := taken[key]; by != "" && reservedBy == "" {
			reservedBy = fmt.Sprintf("label %s, by which %s selects", key, by)
		}
	}
	remedy = fmt.Sprintf("Add %s to spec.customization.preservedLabels of the sandbox", strings.Join(expressions, " and "))
	switch {
	case reservedBy == "":
		return fact, remedy + ", or to the value forks.preservedLabels."
	case fork.KeepsApart(kept, in.Baseline, in.plan()):
		return fact, remedy + "."
	}
	return fmt.Sprintf("%s; a fork cannot keep %s", fact, reservedBy),
		fmt.Sprintf("Copy the policy for pods with label %s=%s, or for a label of your own that a patch of the sandbox adds to spec.template.metadata.labels.",
			crdv1.LabelForkedWorkload, clone.Template.Labels[crdv1.LabelForkedWorkload])
}

// baselineServices returns the names of the Services of the baseline.
func (in Input) baselineServices() []string {
	var out []string
	live := in.Forms()
	for _, s := range in.neighbours() {
		if live.Selected(&s) {
			out = append(out, s.Name)
		}
	}
	return lists.Unique(out)
}

// unreadPolicies returns the decision to change nothing until policies can be read, since it is
// not known whether the fork may run.
func (in Input) unreadPolicies() Decision {
	unknown := condition.Unknown(ReasonPoliciesUnreadable, fmt.Sprintf("Policies cannot be read, and policies.workloads is refuse, so the fork of %s is not changed: %v. Allow the controller manager to list them.", in.baselineName(), in.PoliciesUnread))
	return asItIs(in, condition.Set{crdv1.ConditionAccepted: unknown, crdv1.ConditionBaselineFound: in.Found(in.Workload), crdv1.ConditionPoliciesApply: unknown})
}
