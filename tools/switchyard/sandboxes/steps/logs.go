package steps

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// lookAgain is how long a command waits before it looks at a resource or a pod again.
const lookAgain = time.Second

// wanted is whose logs are asked for.
type wanted struct {
	sandbox, resource, step string
	follow                  bool
}

func logs(s *command.Session) *cobra.Command {
	var w wanted
	c := &cobra.Command{
		Use: "logs --sandbox S --resource R", Short: "Show what the steps of a resource write", Args: cobra.NoArgs,
		Long: `Show what the steps of a resource write, each line after the name of its step where there
are several. With -f it goes on with the next steps as they begin, until none runs any more. What a step
wrote can be read while its pod is there: until its resource is gone, or the step runs again. On a terminal, control sequences are escaped and colours dropped.`,
		Example: "  switchyard logs --sandbox mine --resource db --step seed -f",
	}
	f := c.Flags()
	f.StringVar(&w.sandbox, "sandbox", "", "the `sandbox` whose resource is meant")
	f.StringVar(&w.resource, "resource", "", "the `resource`: its name in the sandbox; without --sandbox, that of its object")
	f.StringVar(&w.step, "step", "", "only this `step`")
	f.BoolVarP(&w.follow, "follow", "f", false, "go on until no step runs any more")
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
			return exit.Unavailable.Errorf("this needs a cluster: %w", err)
		}
		pods, err := kubernetes.NewForConfig(access)
		if err != nil {
			return exit.Unavailable.Errorf("reach the cluster: %w", err)
		}
		o, err := found(c.Context(), s, cluster, w.sandbox, w.resource)
		if err != nil {
			return err
		}
		t := &tail{s: s, pods: pods, follow: w.follow}
		if err := t.choose(o, w.step); err != nil {
			return err
		}
		if w.follow {
			return t.followed(c.Context(), cluster, o)
		}
		return t.now(c.Context(), o)
	}
	return c
}

// choose checks which steps are meant.
func (t *tail) choose(o *crdv1.Resource, step string) error {
	r := reportOf(o, t.s.Name, t.s.Now())
	var names []string
	for _, one := range slices.Concat(r.Create, r.Delete) {
		names = append(names, one.Name)
	}
	if step != "" && !slices.Contains(names, step) {
		return exit.No.Errorf("resource %s has no step %s; it has %s", r.Name, step, strings.Join(names, ", "))
	}
	t.step, t.several = step, step == "" && len(names) > 1
	return nil
}

// steps returns those that are meant.
func (t *tail) steps(o *crdv1.Resource) []step {
	r := reportOf(o, t.s.Name, t.s.Now())
	return slices.DeleteFunc(slices.Concat(r.Create, r.Delete), func(one step) bool { return t.step != "" && one.Name != t.step })
}

// now shows what there is.
func (t *tail) now(ctx context.Context, o *crdv1.Resource) error {
	shown := false
	for _, one := range t.steps(o) {
		pod, err := t.podOf(ctx, o, one)
		if err != nil {
			return err
		}
		if pod == nil {
			if t.step != "" {
				return exit.No.Errorf("step %s has no pod (%s); %s resource get %s says more", one.Name, one.Phase, t.s.Name, o.Name)
			}
			continue
		}
		shown = true
		if err := t.copy(ctx, one.Name, *pod); err != nil {
			return err
		}
	}
	if !shown {
		return exit.No.Errorf("no step of resource %s has a pod; %s resource get %s says more", o.Name, t.s.Name, o.Name)
	}
	return nil
}

// followed shows the logs of steps until none runs any more.
func (t *tail) followed(ctx context.Context, cluster client.Client, o *crdv1.Resource) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error // Of the logs that were followed.
	seen := map[crdv1.NamespacedName]bool{}
	wait := func(err error) error {
		all.Wait()
		if err == nil {
			err = first
		}
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for uid := o.UID; ; {
		for _, one := range t.steps(o) {
			pod, err := t.podOf(ctx, o, one)
			if err != nil {
				stop()
				return wait(err)
			}
			if pod == nil || seen[*pod] {
				continue
			}
			seen[*pod] = true
			all.Go(func() {
				if err := t.copy(ctx, one.Name, *pod); err != nil {
					mu.Lock()
					defer mu.Unlock()
					first = err
				}
			})
		}
		if t.ended(o) {
			return wait(nil)
		}
		if !pause(ctx) {
			return wait(ctx.Err())
		}
		again := &crdv1.Resource{}
		one, cancel := t.s.Patiently(ctx)
		err := cluster.Get(one, client.ObjectKeyFromObject(o), again)
		cancel()
		if apierrors.IsNotFound(err) || err == nil && again.UID != uid {
			return wait(nil)
		}
		if err != nil {
			stop()
			return wait(failed("read", o.Name, err))
		}
		o = again
	}
}

// ended reports whether no more is to come of the steps that are meant.
func (t *tail) ended(o *crdv1.Resource) bool {
	r := reportOf(o, t.s.Name, t.s.Now())
	if t.step == "" || r.ended() {
		return r.ended()
	}
	one := t.steps(o)[0]
	return one.done() || one.trouble()
}

// pause waits until it is time to look again, and reports whether anybody wants that.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookAgain):
		return true
	}
}

// noted tells people what is not in a log.
func (t *tail) noted(step, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.s.Err, show.Line("step "+step+": "+fmt.Sprintf(format, args...))+"\n")
}
