package replay

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/xds/translate"
)

// ask runs the command line. Lines of input are headers of a request.
func (s *story) ask(ctx context.Context, d *datadriven.TestData) (string, error) {
	args := []string{d.Cmd}
	for _, arg := range d.CmdArgs {
		args = append(args, arg.String())
	}
	for line := range strings.Lines(d.Input) {
		args = append(args, "-H", strings.TrimSpace(line))
	}
	return s.run(ctx, args...)
}

func (s *story) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	code := switchyard.Main(ctx, command.Config{
		Name: "switchyard", In: strings.NewReader(""), Out: &out, Err: &out, Zone: time.UTC,
		Getenv: func(name string) string {
			return map[string]string{"KUBECONFIG": os.DevNull, "SWITCHYARD_SERVER": s.main.GRPCAddress()}[name]
		},
	}, args)
	if code != exit.OK {
		fmt.Fprintf(&out, "exit %d\n", code)
	}
	return withoutMesh.ReplaceAllString(out.String(), ""), ctx.Err()
}

// withoutMesh matches the line of explain about meshes: a story has no cluster that it could read.
var withoutMesh = regexp.MustCompile(`(?m)^Whether a mesh routes it is not known: .*\n`)

// routes are what the sidecars of a workload have.
type routes struct {
	table       table.Table
	translation translate.Translation
}

// xds returns the routes of a workload. They are made anew, and held against those that were
// asked for before, brought up to date.
func (s *story) xds(ctx context.Context, d *datadriven.TestData) (string, error) {
	o := objectOf(d.CmdArgs[0].Key)
	w := table.Workload{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	t, err := s.current(ctx)
	if err != nil {
		return "", err
	}
	anew, err := translate.Translate(t, w)
	if err != nil {
		return "", err
	}
	if was, ok := s.sent[w]; ok {
		updated, err := was.translation.Updated(t, table.DiffOf(was.table, t, w))
		if err != nil || updated.Version() != anew.Version() {
			return "", fmt.Errorf("routes that are brought up to date differ from those that are made anew: %w", err)
		}
	}
	s.sent[w] = routes{t, anew}
	whole, err := anew.Whole()
	if err != nil {
		return "", err
	}
	config := &routev3.RouteConfiguration{}
	if err := whole.Any.UnmarshalTo(config); err != nil {
		return "", err
	}
	entries := config.GetVirtualHosts()[0].GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap()
	var out strings.Builder
	for _, match := range slices.Sorted(maps.Keys(entries)) {
		route := &routev3.Route{}
		if err := entries[match].GetAction().GetTypedConfig().UnmarshalTo(route); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s -> %s\n", match, routeText(route))
	}
	for _, name := range t.KeyHeaders() {
		fmt.Fprintf(&out, "key header %s\n", name)
	}
	return out.String() + "else -> app\n", nil
}

// routeText returns where a route leads: to an address, to the application, or to an answer.
func routeText(r *routev3.Route) string {
	if r.GetDirectResponse() == nil {
		to := r.GetMetadata().GetFilterMetadata()[translate.DestinationNamespace].GetFields()[translate.DestinationKey].GetStringValue()
		return strings.TrimSpace(r.GetRoute().GetCluster()+" "+to) + " (" + r.GetName() + ")"
	}
	out := fmt.Sprint(r.GetDirectResponse().GetStatus())
	for _, h := range r.GetResponseHeadersToAdd() {
		out += " " + h.GetHeader().GetValue()
	}
	return out + ": " + r.GetDirectResponse().GetBody().GetInlineString()
}

// routes asks the published routes API.
func (s *story) routes(ctx context.Context, d *datadriven.TestData) (string, error) {
	url := "http://" + s.main.RESTAddress() + "/api/v1/workloads/routing-rules?" + d.Input
	a, err := traffic.Get(ctx, http.DefaultClient, url)
	return fmt.Sprintf("%d %s", a.Status, a.Body), err
}
