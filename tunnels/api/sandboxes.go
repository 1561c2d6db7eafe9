package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// AnnotationMachine, on a sandbox, is the id of the workstation that serves its local workloads.
const AnnotationMachine = crdv1.AnnotationMachine

// Bounds of a request and of an answer.
const (
	// maxSandboxes is how many sandboxes an answer has at most.
	maxSandboxes = 1000
	// maxNamed is how many sandboxes a request names at most.
	maxNamed = 100
	// maxOthers is how many sandboxes that are not selected an answer names.
	maxOthers = 20
	// maxAsked is how many sandboxes that are not selected are checked for the caller's right.
	maxAsked = 100
)

// WatchLocalSandboxes implements tunnelv1.TunnelAPIServer.
func (s *server) WatchLocalSandboxes(request *tunnelv1.WatchLocalSandboxesRequest, stream grpc.ServerStreamingServer[tunnelv1.WatchLocalSandboxesResponse]) error {
	ctx, cancel := context.WithTimeout(stream.Context(), streamWithin)
	defer cancel()
	c, leave, err := s.admit(ctx, s.streams)
	if err != nil {
		return err
	}
	defer leave()
	if refused := s.cfg.Access.MayUse(ctx, c.user); refused != nil {
		return refusal(refused)
	}
	if n := len(request.GetSandboxes()); n > maxNamed {
		return status.Errorf(codes.InvalidArgument, "%d sandboxes are named; at most %d", n, maxNamed)
	}
	var last *tunnelv1.WatchLocalSandboxesResponse
	var rest unselected
	send := func() error {
		now, err := s.localSandboxes(ctx, c, request, &rest)
		if status.Code(err) == codes.Unavailable && last != nil {
			return nil // until the check succeeds again
		}
		if err != nil || last != nil && proto.Equal(last, now) {
			return err
		}
		last = now
		return stream.Send(now)
	}
	again := time.NewTicker(s.cfg.AskAgain)
	defer again.Stop()
	for {
		changed := s.sandboxes.Next()
		if err := send(); err != nil {
			return err
		}
		if err := s.rest(ctx, changed, again.C, func() error {
			if err := s.stays(ctx, c); err != nil {
				return err
			}
			return send()
		}); err != nil {
			return err
		}
	}
}

// localSandboxes returns the sandboxes with workloads at a workstation that a request selects and the
// caller can update.
func (s *server) localSandboxes(ctx context.Context, c caller, request *tunnelv1.WatchLocalSandboxesRequest, rest *unselected) (*tunnelv1.WatchLocalSandboxesResponse, error) {
	var sandboxes crdv1.SignadotSandboxList
	var workloads crdv1.SignadotExternalWorkloadList
	var resources crdv1.ResourceList
	for _, list := range []client.ObjectList{&sandboxes, &workloads, &resources} {
		if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, status.Error(codes.Unavailable, "the caches of cluster objects have not synced yet: try again")
		}
	}
	local, given := localWorkloads(workloads.Items), map[owner][]*tunnelv1.LocalResource{}
	for i := range resources.Items {
		r := &resources.Items[i]
		if of := sandboxOf(r); of != (owner{}) {
			given[of] = append(given[of], localResource(r))
		}
	}
	out := &tunnelv1.WatchLocalSandboxesResponse{}
	var others []string
	for i := range sandboxes.Items {
		sb := &sandboxes.Items[i]
		if len(local[sb.UID]) == 0 || sb.DeletionTimestamp != nil {
			continue
		}
		one := localSandbox(sb, c.user.Name)
		if !selects(request, one) {
			others = append(others, sb.Name)
			continue
		}
		refused := s.cfg.Access.MayUpdate(ctx, c.user, sb.Name)
		if refused.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE {
			return nil, refusal(refused)
		}
		if refused != nil {
			continue
		}
		for _, w := range local[sb.UID] {
			one.ExternalWorkloads = append(one.ExternalWorkloads, localWorkload(w, sb))
		}
		one.ExternalWorkloads, one.Resources = sortedBy(one.ExternalWorkloads), sortedBy(given[owner{sb.Name, sb.UID}])
		out.Sandboxes = append(out.Sandboxes, one)
	}
	if err := rest.check(others, func(name string) *tunnelv1.Refused { return s.cfg.Access.MayUpdate(ctx, c.user, name) }); err != nil {
		return nil, err
	}
	out.Others, out.MoreOthers = rest.granted, rest.more
	if len(out.Sandboxes) > maxSandboxes {
		return nil, status.Errorf(codes.ResourceExhausted, "%d sandboxes have workloads at workstations, and at most %d are returned: name a machine", len(out.Sandboxes), maxSandboxes)
	}
	slices.SortFunc(out.Sandboxes, func(a, b *tunnelv1.LocalSandbox) int { return strings.Compare(a.SandboxName, b.SandboxName) })
	return out, nil
}

// unselected are the sandboxes that a request does not select. The caller's rights to them are
// checked only once for each list of names, because the result is only informational.
type unselected struct {
	names, granted []string
	more           int32
}

// check records which of these sandboxes the caller can update, by name, and how many were not
// checked.
func (u *unselected) check(names []string, mayUpdate func(string) *tunnelv1.Refused) error {
	slices.Sort(names)
	if slices.Equal(names, u.names) {
		return nil
	}
	now := unselected{names: names}
	for i, name := range names {
		if i == maxAsked || len(now.granted) == maxOthers {
			now.more = int32(len(names) - i)
			break
		}
		switch refused := mayUpdate(name); {
		case refused.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE:
			return refusal(refused)
		case refused == nil:
			now.granted = append(now.granted, name)
		}
	}
	*u = now
	return nil
}

// localWorkloads returns the external workloads of each sandbox, by its UID: an object of another
// sandbox of the name is none.
func localWorkloads(all []crdv1.SignadotExternalWorkload) map[types.UID][]*crdv1.SignadotExternalWorkload {
	out := map[types.UID][]*crdv1.SignadotExternalWorkload{}
	for i := range all {
		if w := &all[i]; sandboxOf(w) != (owner{}) && w.DeletionTimestamp == nil {
			uid := metav1.GetControllerOfNoCopy(w).UID
			out[uid] = append(out[uid], w)
		}
	}
	return out
}

// localSandbox returns the report of a sandbox, without its workloads.
func localSandbox(sb *crdv1.SignadotSandbox, caller string) *tunnelv1.LocalSandbox {
	out := &tunnelv1.LocalSandbox{SandboxName: sb.Name, RoutingKey: sb.Spec.ID, Uid: string(sb.UID), Machine: sb.Annotations[AnnotationMachine]}
	if author, known, err := crdv1.AuthorOf(sb.Annotations); err == nil && known {
		out.Author, out.CallerIsAuthor = author.User, author.User == caller
	}
	return out
}

// selects reports whether a request selects a sandbox.
func selects(request *tunnelv1.WatchLocalSandboxesRequest, one *tunnelv1.LocalSandbox) bool {
	named := len(request.GetSandboxes()) > 0
	switch {
	case one.GetMachine() != request.GetMachineId(), named && !slices.Contains(request.GetSandboxes(), one.GetSandboxName()):
		return false
	}
	return named || request.GetMachineId() != "" || one.GetCallerIsAuthor()
}

// names reports whether a sandbox's specification has a port and local address of an external
// workload. The sandbox's author wrote the specification; fields of the external workload alone
// may be from another user.
func names(sb *crdv1.SignadotSandbox, workload string, port crdv1.TunnelPort) bool {
	for _, x := range sb.Spec.ExternalWorkloads {
		if x.Name != workload || x.Tunnel == nil {
			continue
		}
		for _, p := range x.Tunnel.BaselineToLocals {
			if p.BaselinePort == port.BaselinePort && p.LocalAddress == port.LocalAddress {
				return true
			}
		}
	}
	return false
}

// sortedBy sorts all by name, in place, and returns it.
func sortedBy[T interface{ GetName() string }](all []T) []T {
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// owner is a sandbox in an owner reference. The name alone proves nothing.
type owner struct {
	name string
	uid  types.UID
}

// sandboxOf returns the sandbox that an object belongs to; empty: none.
func sandboxOf(o metav1.Object) owner {
	if of := metav1.GetControllerOfNoCopy(o); of != nil && of.Kind == crdv1.KindSandbox && of.APIVersion == crdv1.APIVersion {
		return owner{of.Name, of.UID}
	}
	return owner{}
}

// localWorkload returns the report of an external workload of a sandbox.
func localWorkload(w *crdv1.SignadotExternalWorkload, sb *crdv1.SignadotSandbox) *tunnelv1.LocalWorkload {
	out := &tunnelv1.LocalWorkload{Name: w.Spec.Name, ObjectNamespace: w.Namespace, ObjectName: w.Name}
	if b := w.Spec.Baseline; b != nil {
		out.Baseline = &tunnelv1.Baseline{ApiVersion: b.APIVersion, Kind: b.Kind, Namespace: cmp.Or(b.Namespace, w.Namespace), Name: b.Name}
	}
	if w.Spec.Tunnel != nil {
		for _, p := range w.Spec.Tunnel.BaselineToLocals {
			if !names(sb, w.Spec.Name, p) {
				continue
			}
			out.WorkloadPortMapping = append(out.WorkloadPortMapping, &tunnelv1.Port{Baseline: p.BaselinePort, LocalAddress: p.LocalAddress})
		}
	}
	if c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionTunnelConnected); c != nil {
		out.Connected, out.Message = c.Status == string(metav1.ConditionTrue), c.Message
	}
	return out
}

// localResource returns the message that describes a resource.
func localResource(r *crdv1.Resource) *tunnelv1.LocalResource {
	out := &tunnelv1.LocalResource{Name: r.Spec.Name}
	if c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); c != nil {
		out.Ready, out.Failed = c.Status == string(metav1.ConditionTrue), c.Reason == crdv1.ReasonResourceFailed
	}
	return out
}

// sandboxWith returns the sandbox with a routing key that a caller may write.
func (s *server) sandboxWith(ctx context.Context, c caller, key string) (*crdv1.SignadotSandbox, error) {
	if refused := s.cfg.Access.MayUse(ctx, c.user); refused != nil {
		return nil, refusal(refused)
	}
	var sandboxes crdv1.SignadotSandboxList
	if err := s.cache.List(ctx, &sandboxes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Error(codes.Unavailable, "the caches of cluster objects have not synced yet: try again")
	}
	i := slices.IndexFunc(sandboxes.Items, func(sb crdv1.SignadotSandbox) bool { return key != "" && sb.Spec.ID == key })
	if i < 0 {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("no sandbox has the routing key %.80q", key))
	}
	if refused := s.cfg.Access.MayUpdate(ctx, c.user, sandboxes.Items[i].Name); refused != nil {
		return nil, refusal(refused)
	}
	return &sandboxes.Items[i], nil
}
