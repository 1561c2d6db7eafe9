package drain

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Name is the word that asks the program for draining.
const Name = "drain"

// ExitStopped is the exit code after a signal stopped the program early, as a shell reports SIGTERM. It
// is no failure: the Job re-creates its pod.
const ExitStopped = 143

// ExitCode returns how the program ends with an error of Main.
func ExitCode(err error) int {
	if errors.Is(err, context.Canceled) {
		return ExitStopped
	}
	return 1
}

// Settings are the arguments of the command.
type Settings struct {
	// Wait, Workflows and Force are those of Config.
	Wait, Workflows, Force time.Duration
	// Keep and Namespaces are those of Config; the latter with commas between them.
	Keep       bool
	Namespaces string
	// ValuesNamespace has the values of units; it is deleted when it is empty. Empty: none is.
	ValuesNamespace string
	// Job is the Job that runs the command, in namespace signadot: unless a Helm client created it as
	// a hook, nothing is drained (NotByHelm). Empty: the cluster is drained in any case.
	Job string
}

// ParseSettings parses the command's arguments, without its name. Usage is written to help; the error
// is flag.ErrHelp if only that was requested.
func ParseSettings(args []string, help io.Writer) (Settings, error) {
	var s Settings
	flags := flag.NewFlagSet("manager "+Name, flag.ContinueOnError)
	flags.DurationVar(&s.Wait, "wait", 2*time.Minute, "how long the controller manager is given to take its objects away; 0 for not at all")
	flags.DurationVar(&s.Workflows, "workflows", 0, "for how much longer workflows that remove resources are waited for, as long as none of their units fails")
	flags.BoolVar(&s.Keep, "keep", false, "leave what people have made, and take away only what was made for it")
	flags.StringVar(&s.Namespaces, "namespaces", "", "the namespaces in which the operator may work, with commas between them; empty for all")
	flags.StringVar(&s.ValuesNamespace, "values-namespace", "", "namespace of the values of units, which is deleted when none is left")
	flags.StringVar(&s.Job, "job", "", "the Job that runs this command, in namespace "+home+": unless a Helm client created it as a hook, nothing is drained")
	flags.DurationVar(&s.Force, "force-within", 30*time.Second, "how long what is left after that is given, once finalizers are taken off")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	if s.Wait < 0 || s.Workflows < 0 || s.Force <= 0 {
		return Settings{}, fmt.Errorf("wait is %s, workflows is %s and force-within is %s: give at least 0, and more than 0 for the last", s.Wait, s.Workflows, s.Force)
	}
	return s, nil
}

// Main runs the command: it drains the cluster of the current kubeconfig. Usage and the log, as JSON,
// are written to out.
func Main(ctx context.Context, args []string, out io.Writer) error {
	s, err := ParseSettings(args, out)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(out, nil))
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	access, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return s.Drain(ctx, access, logger)
}

// Drain drains the cluster that access reaches.
func (s Settings) Drain(ctx context.Context, access *rest.Config, logger *slog.Logger) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), crdv1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("make the scheme: %w", err)
	}
	quiet := rest.CopyConfig(access)
	quiet.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated; where the manager writes them, they are to go.
	c, err := client.New(quiet, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	if s.Job != "" {
		why, err := notByHelm(ctx, c, home, s.Job)
		if err != nil {
			return err
		}
		if why != "" {
			logger.Info("nothing is drained: this Job is a hook of helm uninstall, and no Helm client created it. "+
				"Leave hooks out when you apply the chart (helm template --no-hooks). To uninstall without Helm, set uninstall.now to true", "job", home+"/"+s.Job, "why", why)
			return nil
		}
	}
	namespaces := strings.FieldsFunc(s.Namespaces, func(r rune) bool { return r == ',' })
	err = Run(ctx, Config{Client: c, Wait: s.Wait, Workflows: s.Workflows, Force: s.Force, Keep: s.Keep, Namespaces: namespaces, Logger: logger})
	if err == nil && s.ValuesNamespace != "" {
		deleteValues(ctx, c, s.ValuesNamespace, logger)
	}
	return err
}

const (
	annotationHook = "helm.sh/hook"
	hookPreDelete  = "pre-delete"
)

// readJob is how often the Job is read at most, before its drain fails.
const readJob = 20

// appliers are the annotations and labels with which a program marks objects that it applies.
// Helm sets none of them.
var appliers = map[string]string{
	"kubectl.kubernetes.io/last-applied-configuration": "kubectl apply",
	"argocd.argoproj.io/tracking-id":                   "Argo CD",
	"kustomize.toolkit.fluxcd.io/name":                 "Flux (kustomize-controller)",
	"config.k8s.io/owning-inventory":                   "an inventory of applied objects",
}

// NotByHelm returns why an object is not a hook that helm uninstall created; empty if it is one.
// helm template prints hooks among the other objects, so that they are also applied, with their
// annotations, by programs that do not know what a hook is.
func NotByHelm(o metav1.Object) string {
	if hook := o.GetAnnotations()[annotationHook]; hook != hookPreDelete {
		return fmt.Sprintf("its annotation %s is %q, not %s", annotationHook, hook, hookPreDelete)
	}
	for _, marks := range []map[string]string{o.GetAnnotations(), o.GetLabels()} {
		for mark := range marks {
			if by, is := appliers[mark]; is {
				return fmt.Sprintf("%s applied it (%s)", by, mark)
			}
		}
	}
	managers := hookManagers(o.GetManagedFields())
	for _, name := range managers {
		if !helmClient(name) {
			return fmt.Sprintf("field manager %s set its annotation %s", name, annotationHook)
		}
	}
	if len(managers) == 0 {
		return "no field manager of its annotation " + annotationHook + " is known"
	}
	return ""
}

// hookManagers returns the field managers of annotation helm.sh/hook.
func hookManagers(entries []metav1.ManagedFieldsEntry) (names []string) {
	for _, e := range entries {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
			continue
		}
		if _, is := fields.Metadata.Annotations["f:"+annotationHook]; is {
			names = append(names, e.Manager)
		}
	}
	return names
}

// helmClient reports whether a field manager is a Helm client. Helm takes the name of its program:
// helm, helm-controller (Flux), terraform-provider-helm_v3.1.
func helmClient(manager string) bool {
	return strings.Contains(strings.ToLower(manager), "helm")
}

// notByHelm reads a Job and returns NotByHelm of it. The Job's right to read itself is as old as
// the Job, so that errors are retried for a while.
func notByHelm(ctx context.Context, c client.Client, namespace, name string) (why string, err error) {
	for range readJob {
		job := &metav1.PartialObjectMetadata{}
		job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		if err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err == nil {
			return NotByHelm(job), nil
		}
		if !wake.Sleep(ctx, pause) {
			return "", ctx.Err()
		}
	}
	return "", fmt.Errorf("drain: nothing is drained, since Job %s/%s, which runs this program, cannot be read: %w", namespace, name, err)
}
