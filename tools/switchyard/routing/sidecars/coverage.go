package sidecars

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/survey"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// Coverage lists the pods with a ready and current sidecar, and the others. Its JSON is part of the
// interface.
type Coverage struct {
	// Workloads are those that are concerned, sorted.
	Workloads []Workload `json:"workloads"`
	// Unknown are sentences about sources that could not be read, and about the gaps that they leave in
	// the report.
	Unknown []string `json:"unknown"`
	// Others are the numbers of pods of the other workloads of the namespaces: as far as is known,
	// none requests a sidecar or has a fork.
	Others []Workload `json:"-"`
}

// Workload is where the pods of one workload stand.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Asks: the workload requests sidecars. Covered: every pod that needs one has a ready and
	// current one.
	Asks    bool `json:"asks"`
	Covered bool `json:"covered"`
	// Pods is how many it has. Below are the names of those in each state; Outdated
	// and Behind are nil where that is not known.
	Pods     int      `json:"pods"`
	OK       []string `json:"ok"`
	Outdated []string `json:"outdated"`
	Behind   []string `json:"behind"`
	NotReady []string `json:"notReady"`
	Missing  []string `json:"missing"`
	// NotNeeded are the pods without a sidecar of a workload that no Service selects or that a mesh
	// routes.
	NotNeeded []string `json:"notNeeded"`
	// Differ lists, for each outdated pod, the settings in which it differs from a newly injected
	// one.
	Differ map[string][]string `json:"differ,omitempty"`
	// Differences has that of each outdated pod as a phrase.
	Differences map[string]string `json:"-"`
	// Restart is the command that re-creates all pods.
	Restart string `json:"restart,omitempty"`
	// ToDo lists the problems and their remedies, in sentences.
	ToDo []string `json:"toDo"`
}

// Covered returns the command that lists pods by the state of their sidecars.
func Covered(s *command.Session) *cobra.Command {
	var namespace string
	c := &cobra.Command{
		Use:   "coverage",
		Short: "Show which pods have a ready and current sidecar, with remedies for the others",
		Long: `Show, for each workload that asks for DevMesh sidecars, has some, or has a fork, how
many of its pods are
  ok         the sidecar is ready, and current
  outdated   ready, injected with another image or setting than a new pod would get
  behind     ready, but connected to no route server, or has not acknowledged its rules
  not ready  the sidecar is not ready
  missing    there is none
  not needed there is none, and no Service selects the workload: no request reaches it;
             or a mesh routes its requests
with remedies for those that are not ok. It reads pods, Deployments, Rollouts, Namespaces,
Services, IstioRoutes and GatewayAPIRoutes with your kubeconfig, and asks a route
server which sidecars are connected. Objects that cannot be read are listed, shown as ?, and
make no workload uncovered. Exit code 1 when a workload is known not to be covered.`,
		Example: `  switchyard coverage
  switchyard coverage -n shop -o json`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "only workloads in this namespace")
	c.RunE = func(c *cobra.Command, _ []string) error { return showCoverage(c.Context(), s, namespace) }
	return c
}

func showCoverage(ctx context.Context, s *command.Session, namespace string) error {
	if s.Archive != "" {
		return exit.Usage.Errorf("coverage reads pods, which no archive contains: omit --archive")
	}
	access, err := s.Cluster.Rest()
	if err != nil {
		return exit.Unavailable.Errorf("coverage reads the cluster: %w", err)
	}
	ask := survey.Question{Namespace: namespace, Operator: s.Cluster.Namespace}
	current, why := connected(ctx, s, namespace)
	ask.Connected = current
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	got, err := coverageOf(ctx, access, ask)
	if err != nil {
		return err
	}
	if why != nil {
		got.Unknown = append(got.Unknown, "it is not known which sidecars are behind: "+why.Error())
	}
	// In JSON they are lists, also when they are empty.
	got.Unknown, got.Workloads = append([]string{}, got.Unknown...), append([]Workload{}, got.Workloads...)
	if err := s.Show.Report(got, coverageText(s.Show, got)); err != nil {
		return err
	}
	uncovered := slices.ContainsFunc(got.Workloads, func(w Workload) bool { return !w.Covered })
	return exit.No.Unless(!uncovered)
}

// coverageOf surveys the cluster.
func coverageOf(ctx context.Context, access *rest.Config, ask survey.Question) (out Coverage, err error) {
	reader, err := command.Client(access)
	if err != nil {
		return out, err
	}
	found, err := survey.Look(ctx, reader, ask)
	for _, r := range found.Reports {
		out.Workloads = append(out.Workloads, shown(r))
	}
	for w, n := range found.Others {
		out.Others = append(out.Others, Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Pods: n})
	}
	out.Unknown = found.Unknown
	return out, err
}

// shown returns a report as the command shows it.
func shown(r coverage.Report) Workload {
	pods := func(s coverage.State, known bool) []string {
		if !known {
			return nil
		}
		return append([]string{}, r.Pods[s]...)
	}
	out := Workload{
		Kind: r.Workload.Kind, Namespace: r.Workload.Namespace, Name: r.Workload.Name,
		Asks: r.Asks, Covered: r.Full(), Pods: r.Total,
		OK: pods(coverage.OK, true), Outdated: pods(coverage.Outdated, r.SettingsKnown), Behind: pods(coverage.Behind, r.ConnectionsKnown),
		NotReady: pods(coverage.NotReady, true), Missing: pods(coverage.Missing, true), NotNeeded: pods(coverage.NotNeeded, true),
		ToDo: append([]string{}, r.ToDo()...),
	}
	if len(r.Differ) > 0 {
		out.Differ, out.Restart, out.Differences = r.Differ, r.Restart(), map[string]string{}
		for pod, names := range r.Differ {
			out.Differences[pod] = inject.Differences(names)
		}
	}
	return out
}

// connected returns which sidecars are connected and current. The rest of the report is useful
// without a route server, too.
func connected(ctx context.Context, s *command.Session, namespace string) (map[string]bool, error) {
	got, err := command.Ask(ctx, s, routingv1.RoutingClient.Sidecars, &routingv1.SidecarsRequest{Filter: &routingv1.Filter{Namespace: namespace}})
	if err != nil {
		return nil, err
	}
	if silent := got.GetSilent(); len(silent) > 0 {
		return nil, fmt.Errorf("route servers did not answer: %s", strings.Join(silent, ", "))
	}
	connected := map[string]bool{}
	for _, s := range got.GetSidecars() {
		connected[s.GetNamespace()+"/"+s.GetPod()] = s.GetCurrent()
	}
	return connected, nil
}

func coverageText(p *show.Printer, c Coverage) string {
	var b strings.Builder
	if len(c.Workloads) > 0 {
		rows := show.Grid{{"WORKLOAD", "PODS", "OK", "OUTDATED", "BEHIND", "NOT READY", "MISSING", "NOT NEEDED"}}
		for _, w := range c.Workloads {
			rows = append(rows, []string{show.Plain(w.title()), strconv.Itoa(w.Pods), howMany(w.OK), howMany(w.Outdated),
				howMany(w.Behind), howMany(w.NotReady), howMany(w.Missing), howMany(w.NotNeeded)})
		}
		b.WriteString(rows.String() + "\n")
	}
	covered := 0
	for _, w := range c.Workloads {
		if w.Covered {
			covered++
		}
		if len(w.ToDo) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\n", p.Paint(show.Bold, show.Plain(w.title())))
		for _, line := range show.Lines(w.ToDo) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	for _, unknown := range c.Unknown {
		// Indented, so that no line of an error looks like one of the report.
		b.WriteString(p.Paint(show.Yellow, strings.ReplaceAll(show.Plain(unknown), "\n", "\n    ")) + "\n")
	}
	fmt.Fprintf(&b, "%s, %d covered%s\n", show.Many(len(c.Workloads), "workload"), covered, asFarAs(c))
	return b.String()
}

// asFarAs returns how much the number of those covered is worth.
func asFarAs(c Coverage) string {
	switch {
	case slices.ContainsFunc(c.Workloads, func(w Workload) bool { return w.Behind == nil }):
		return " as far as the cluster shows: it is unknown whether their sidecars have current routes"
	case len(c.Unknown) > 0:
		return " as far as is known"
	}
	return ""
}

func (w Workload) title() string { return explain.Object(w.Kind, w.Namespace, w.Name) }

// howMany counts pods, where they are known.
func howMany(pods []string) string {
	if pods == nil {
		return "?"
	}
	return strconv.Itoa(len(pods))
}

// Outdated returns a line of text when the sidecar of a pod, namespace/name, was injected with
// settings other than those of a new pod, or when that is unknown. It reads the cluster; with an
// archive it returns "".
func Outdated(ctx context.Context, s *command.Session, pod string) string {
	namespace, _, named := strings.Cut(pod, "/")
	if !named || s.Archive != "" {
		return ""
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	access, err := s.Cluster.Rest()
	var got Coverage
	if err == nil {
		got, err = coverageOf(ctx, access, survey.Question{Namespace: namespace, Operator: s.Cluster.Namespace})
	}
	if err != nil {
		return fmt.Sprintf("Whether the sidecar of pod %s is outdated is not known: %s\n", pod, show.Plain(err.Error()))
	}
	for _, w := range got.Workloads {
		if name, ok := strings.CutPrefix(pod, w.Namespace+"/"); ok && slices.Contains(w.Outdated, name) {
			return fmt.Sprintf("Pod %s is OUTDATED: %s. Restart it: %s\n",
				pod, show.Plain(w.Differences[name]), show.Plain(w.Restart))
		}
	}
	return ""
}
