package steps

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/steps"
)

// wanted selects the logs to print.
type wanted struct {
	sandbox, resource, step string
	follow                  bool
}

func logs(s *command.Session) *cobra.Command {
	var w wanted
	c := &cobra.Command{
		Use: "logs --sandbox S --resource R", Short: "Show the output of the steps of a resource", Args: cobra.NoArgs,
		Long: `Show the output of the steps of a resource, each line after the name of its step where there
are several. -f follows the steps as they start, until none is running. The output of a step is
available while its pod exists: until the resource is deleted, or the step runs again. On a terminal,
control sequences are escaped and colours removed.`,
		Example: "  switchyard logs --sandbox mine --resource db --step seed -f",
	}
	f := c.Flags()
	f.StringVar(&w.sandbox, "sandbox", "", "the `sandbox` of the resource")
	f.StringVar(&w.resource, "resource", "", "the `resource`: its name in the sandbox; without --sandbox, that of its object")
	f.StringVar(&w.step, "step", "", "only this `step`")
	f.BoolVarP(&w.follow, "follow", "f", false, "follow the output until no step is running")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if w.resource == "" {
			return exit.Usage.Errorf("give --resource, and --sandbox unless it is the name of an object")
		}
		cluster, err := s.Writer()
		if err != nil {
			return err
		}
		access, err := s.Cluster.Rest()
		if err != nil {
			return exit.Unavailable.Errorf("a cluster is needed: %w", err)
		}
		pods, err := kubernetes.NewForConfig(access)
		if err != nil {
			return exit.Unavailable.Errorf("reach the cluster: %w", err)
		}
		o, err := found(c.Context(), s, cluster, w.sandbox, w.resource)
		if err != nil {
			return err
		}
		several, err := choose(s, o, w.step)
		if err != nil {
			return err
		}
		p := printer{s, several}
		t := &steps.Tail{Pods: pods, Namespace: s.Cluster.Namespace, Step: w.step, Follow: w.follow, Request: s.Patiently, Line: p.line, Note: p.note}
		if w.follow {
			return t.Followed(c.Context(), cluster, o)
		}
		err = t.Now(c.Context(), o)
		var none steps.NoPod
		switch {
		case errors.As(err, &none) && none.Step != "":
			return exit.No.Errorf("step %s has no pod (%s); see %s resource get %s", none.Step, none.Phase, s.Name, o.Name)
		case errors.As(err, &none):
			return exit.No.Errorf("no step of resource %s has a pod; see %s resource get %s", o.Name, s.Name, o.Name)
		}
		return err
	}
	return c
}

// choose checks which step is meant, and reports whether several are.
func choose(s *command.Session, o *crdv1.Resource, step string) (several bool, err error) {
	r := reportOf(s, o)
	names := lists.Map(slices.Concat(r.Create, r.Delete), func(one steps.Step) string { return one.Name })
	if step != "" && !slices.Contains(names, step) {
		return false, exit.No.Errorf("resource %s has no step %s; it has %s", r.Name, step, strings.Join(names, ", "))
	}
	return step == "" && len(names) > 1, nil
}

// printer prints logs.
type printer struct {
	s *command.Session
	// several: the name of the step is before each line.
	several bool
}

// line prints one line. For a terminal it is escaped (show.LogLine), since other users can have written
// it; a file or a pipe gets it as it is.
func (p printer) line(step, line string) error {
	if p.s.Terminal {
		line = show.LogLine(line)
	}
	if p.several {
		line = show.Line(step) + " | " + line
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
	}
	_, err := io.WriteString(p.s.Out, line)
	return err
}

// note prints a note about a gap in a log.
func (p printer) note(step, text string) {
	_, _ = io.WriteString(p.s.Err, show.Line("step "+step+": "+text)+"\n")
}
