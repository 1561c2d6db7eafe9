package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Plane is the Site of a control plane.
type Plane struct {
	*plane.Plane
	// known are the plugins, once a sandbox needs them.
	known []version
}

// published is a sandbox or a route group of the API.
type published struct {
	Name, RoutingKey, CreatedAt, UpdatedAt string
	Spec                                   json.RawMessage
	Endpoints                              []sandboxes.Endpoint
	Status                                 struct {
		Ready                                bool
		Reason, Message, ScheduledDeleteTime string
		MatchedSandboxes                     []string
	}
}

// addURLs adds the URLs of previews to endpoints of the object.
func (a published) addURLs(to []sandboxes.Endpoint) {
	for _, e := range a.Endpoints {
		if i := slices.IndexFunc(to, func(one sandboxes.Endpoint) bool { return one.Name == e.Name }); i >= 0 {
			to[i].URL = e.URL
		}
	}
}

// reasonTerminating is the reason of an object that is being deleted.
const reasonTerminating = "Terminating"

// isGroup reports whether a kind is that of route groups.
func isGroup(of sandboxes.Kind) bool { return of.Name == specfile.RouteGroup }

// get reads an object of the API.
func (p *Plane) get(ctx context.Context, of sandboxes.Kind, name string) (published, error) {
	if isGroup(of) {
		return plane.Answer[published](p.API.GetRouteGroup(ctx, p.Org, name))
	}
	return plane.Answer[published](p.API.GetSandbox(ctx, p.Org, name))
}

// ApplySandbox implements Site.
func (p *Plane) ApplySandbox(ctx context.Context, asked spec.Sandbox, text json.RawMessage) (out sandboxes.Applied, err error) {
	written, err := plane.Answer[published](p.API.ApplySandboxWithBody(ctx, p.Org, asked.Name, "application/json", body(asked.Name, text)))
	if err != nil {
		return out, problemsOf(err)
	}
	out.Object, out.Notes, err = p.object(ctx, sandboxes.Sandboxes, written)
	return out, err
}

// ApplyGroup implements Site.
func (p *Plane) ApplyGroup(ctx context.Context, asked spec.Group, text json.RawMessage) (out sandboxes.Applied, err error) {
	written, err := plane.Answer[published](p.API.ApplyRouteGroupWithBody(ctx, p.Org, asked.Name, "application/json", body(asked.Name, text)))
	if err != nil {
		return out, problemsOf(err)
	}
	out.Matched = written.Status.MatchedSandboxes // Earlier ones are not known: they change at any time.
	out.Object, _, err = p.object(ctx, sandboxes.Groups, written)
	return out, err
}

// body is the body of a request with a specification.
func body(name string, text json.RawMessage) *bytes.Reader {
	all, _ := json.Marshal(map[string]any{"name": name, "spec": text}) // text is JSON
	return bytes.NewReader(all)
}

// problemsOf returns the faults of fields that a control plane reports as problems, which have positions in
// the file.
func problemsOf(err error) error {
	var problems specfile.Problems
	var why *plane.Refused
	if !errors.As(err, &why) {
		return err
	}
	for line := range strings.Lines(why.Text) {
		path, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, is := strings.CutSuffix(path, ":"); is {
			path, text = bare, "is wrong: "+text
		}
		if path != "name" && path != "spec" && !strings.HasPrefix(path, "spec.") {
			return err
		}
		problems.Add(path, "%s", text)
	}
	return problems.OrNil()
}

// missing reports whether there is no object of a name.
func missing(err error) bool {
	return plane.StatusOf(err) == http.StatusNotFound && strings.HasSuffix(err.Error(), "not found")
}

// Object implements Site.
func (p *Plane) Object(ctx context.Context, of sandboxes.Kind, name string) (out sandboxes.Object, err error) {
	one, err := p.get(ctx, of, name)
	if missing(err) {
		return out, sandboxes.ErrNotFound
	}
	if err == nil {
		out, _, err = p.object(ctx, of, one)
	}
	return out, err
}

// Objects implements Site.
func (p *Plane) Objects(ctx context.Context, of sandboxes.Kind) (out []sandboxes.Report, err error) {
	list := p.API.ListSandboxes
	if isGroup(of) {
		list = p.API.ListRouteGroups
	}
	all, err := plane.Answer[[]published](list(ctx, p.Org))
	for i := 0; i < len(all) && err == nil; i++ {
		var o sandboxes.Object
		o, _, err = p.object(ctx, of, all[i])
		out = append(out, o.Report)
	}
	return out, err
}

// Remove implements Site.
func (p *Plane) Remove(ctx context.Context, of sandboxes.Kind, name string, force bool) (err error) {
	if isGroup(of) {
		_, err = plane.Answer[v2.EmptyResponse](p.API.DeleteRouteGroup(ctx, p.Org, name))
	} else {
		_, err = plane.Answer[v2.EmptyResponse](p.API.DeleteSandbox(ctx, p.Org, name, &v2.DeleteSandboxParams{Force: &force}))
	}
	if missing(err) { // It was deleted since it was read.
		return nil
	}
	return err
}

// MatchesLater implements Site.
func (p *Plane) MatchesLater() bool { return true }

// object returns an object of the API as one of a cluster, and the parts of its specification that have no
// effect. The specification is compiled once more for that. No two objects have one routing key.
func (p *Plane) object(ctx context.Context, of sandboxes.Kind, a published) (out sandboxes.Object, notes specfile.Problems, err error) {
	status := sandboxes.Status{Ready: a.Status.Ready, Reason: a.Status.Reason, Message: a.Status.Message, ScheduledDeleteTime: a.Status.ScheduledDeleteTime}
	out = sandboxes.Object{Name: a.Name, RoutingKey: a.RoutingKey, ID: a.RoutingKey, Deleting: status.Reason == reasonTerminating}
	if isGroup(of) {
		out.Report, err = p.group(ctx, a, status)
	} else {
		out.Report, notes, err = p.sandbox(ctx, a, status)
	}
	return out, notes, err
}

func (p *Plane) sandbox(ctx context.Context, a published, status sandboxes.Status) (r sandboxes.Sandbox, notes specfile.Problems, err error) {
	in := compile.Input{Sandbox: spec.Sandbox{Name: a.Name}, RoutingKey: a.RoutingKey}
	if err := json.Unmarshal(a.Spec, &in.Sandbox.Spec); err != nil {
		return r, nil, fmt.Errorf("read sandbox %s of the control plane: %w", a.Name, err)
	}
	if len(in.Sandbox.Spec.Resources) > 0 {
		if p.known == nil {
			if p.known, err = p.versions(ctx); err != nil {
				return r, nil, err
			}
		}
		in.Plugins, in.Pinned = pinned(p.known, a.Name)
	}
	out, _ := compile.Sandbox(in) // The control plane has accepted it.
	r = sandboxes.SandboxOf(out.Sandbox)
	a.addURLs(r.Endpoints)
	r.CreatedAt, r.UpdatedAt, r.Spec, r.Status = a.CreatedAt, a.UpdatedAt, a.Spec, status
	for i, one := range r.Resources { // The message has the quoted names of those that failed.
		r.Resources[i].Ready = status.Ready
		r.Resources[i].Failed = status.Reason == crdv1.ReasonResourceFailed && strings.Contains(status.Message, fmt.Sprintf("%q", one.Name))
	}
	bound := []string{"spec.connection", "spec.localMachineID"} // They have an effect at a control plane.
	return r, slices.DeleteFunc(out.Notes, func(n specfile.Problem) bool { return slices.Contains(bound, n.Path) }), nil
}

func (p *Plane) group(ctx context.Context, a published, status sandboxes.Status) (r sandboxes.Group, err error) {
	in := compile.GroupInput{Group: spec.Group{Name: a.Name}, RoutingKey: a.RoutingKey, MatchesLater: true}
	if err := json.Unmarshal(a.Spec, &in.Group.Spec); err != nil {
		return r, fmt.Errorf("read route group %s of the control plane: %w", a.Name, err)
	}
	out, _ := compile.Group(in) // The control plane has accepted it.
	out.Group.Spec.SandboxNames = a.Status.MatchedSandboxes
	r = sandboxes.GroupOf(out.Group)
	a.addURLs(r.Endpoints)
	r.CreatedAt, r.UpdatedAt, r.Spec, r.Status.Status = a.CreatedAt, a.UpdatedAt, a.Spec, status
	for _, name := range a.Status.MatchedSandboxes {
		member := published{}
		if member.Status.Ready = status.Ready; !status.Ready {
			if member, err = p.get(ctx, sandboxes.Sandboxes, name); err != nil && !missing(err) {
				return r, err
			}
		}
		if member.Status.Ready {
			r.Status.ReadySandboxes++
		}
	}
	return r, nil
}
