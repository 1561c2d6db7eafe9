package live

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/steps"
)

// Details is what a cluster reports about a sandbox.
type Details struct {
	sandboxes.Sandbox
	Members   []Member
	Resources []steps.Report
	// Unread wraps model.ErrRefused if the user lacks the rights to read the members or the resources.
	Unread error
}

// Member is a workload of a sandbox.
type Member struct {
	// How is fork, local or virtual, and Name that of the object. Baseline is KIND/NAMESPACE/NAME; empty: it has none.
	How, Name, Baseline string
	Ready               bool
	// Reason and Message are those of its condition Ready; empty: the operator has not reported on it.
	Reason, Message string
}

// hows are the kinds of members in the specification.
var hows = map[string]string{crdv1.KindForkedWorkload: "fork", crdv1.KindExternalWorkload: "local", crdv1.KindVirtualWorkload: "virtual"}

// Details returns the report of a sandbox with its members and resources. Its errors are those of Report.
func (c Clusters) Details(ctx context.Context, org, cluster, name string, by model.Author) (out Details, err error) {
	reader, err := c.Reader(ctx, org, cluster, by)
	if err != nil {
		return out, err
	}
	var members []crdv1.Member
	var resources []crdv1.Resource
	var unreadMembers, unreadResources error
	var reads errgroup.Group // a request takes a while
	reads.Go(func() error {
		out.Sandbox, err = reportOf(ctx, reader, cluster, name)
		return nil
	})
	reads.Go(func() error {
		members, unreadMembers = publish.Members(ctx, reader, client.MatchingLabels{crdv1.LabelSandbox: name})
		return nil
	})
	resources, unreadResources = steps.List(ctx, reader, name)
	_ = reads.Wait() // each has its own error
	if err != nil {
		return Details{}, err
	}
	for _, m := range members {
		out.Members = append(out.Members, memberOf(m))
	}
	for i := range resources {
		out.Resources = append(out.Resources, steps.Of(&resources[i], time.Now()))
	}
	if err = known(cluster, errors.Join(unreadMembers, unreadResources)); errors.Is(err, model.ErrRefused) {
		out.Unread, err = err, nil
	}
	return out, err
}

// Resources returns the resources of all sandboxes of a cluster. Its errors are those of Report.
func (c Clusters) Resources(ctx context.Context, org, cluster string, by model.Author) (out []steps.Report, err error) {
	reader, err := c.Reader(ctx, org, cluster, by)
	if err != nil {
		return nil, err
	}
	all, err := steps.List(ctx, reader, "")
	for i := range all {
		out = append(out, steps.Of(&all[i], time.Now()))
	}
	return out, known(cluster, err)
}

// memberOf returns the report of a member.
func memberOf(m crdv1.Member) Member {
	out := Member{How: hows[m.MemberKind()], Name: m.GetName()}
	if ref, has := m.BaselineRef(); has {
		out.Baseline = ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	if ready := crdv1.FindCondition(*m.StatusConditions(), crdv1.ConditionReady); ready != nil && ready.ObservedGeneration >= m.GetGeneration() {
		out.Ready, out.Reason, out.Message = ready.Status == "True", ready.Reason, ready.Message
	}
	return out
}
