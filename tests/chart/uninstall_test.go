package chart

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/tools/wait"
)

const drainJob = "signadot-drain"

func TestTheDrainingJobTakesItsArguments(t *testing.T) {
	for values, want := range map[string]time.Duration{"": 2 * time.Minute, "uninstall: {waitSeconds: 7}": 7 * time.Second} {
		all := mustRender(t, values)
		job := as[batchv1.Job](t, all.find("Job", namespace, drainJob))
		container := job.Spec.Template.Spec.Containers[0]
		if len(container.Command) != 2 || container.Command[1] != drain.Name {
			t.Errorf("the Job runs %q", container.Command)
		}
		settings, err := drain.ParseSettings(container.Args, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if most := time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second; settings.Wait != want || most < settings.Wait+settings.Force+time.Minute {
			t.Errorf("it waits %s and forces %s, and may take %s", settings.Wait, settings.Force, most)
		}
		if !settings.Keep {
			t.Error("it takes people's objects away")
		}
		manager := all.podOf(t, "signadot-controller-manager").Containers[0]
		if container.Image != manager.Image {
			t.Errorf("it runs %s, the manager %s", container.Image, manager.Image)
		}
	}
}

func TestTheDrainJobKnowsKeptObjectsAndTheNamespace(t *testing.T) {
	for values, want := range map[string]drain.Settings{
		"":                                       {Keep: true},
		"uninstall: {keep: false}":               {},
		"allowedNamespaces: [shop, pay]":         {Keep: true, Namespaces: "shop,pay," + namespace + "," + smartTests},
		"allowedNamespaces: [" + namespace + "]": {Keep: true, Namespaces: namespace + "," + smartTests},
	} {
		job := as[batchv1.Job](t, mustRender(t, values).find("Job", namespace, drainJob))
		settings, err := drain.ParseSettings(job.Spec.Template.Spec.Containers[0].Args, t.Output())
		if err != nil || settings.Keep != want.Keep || settings.Namespaces != want.Namespaces {
			t.Errorf("with %q it is told %+v: %v", values, settings, err)
		}
	}
}

func TestTheDrainingJobEndsOnceItsProgramHasFailed(t *testing.T) {
	job := as[batchv1.Job](t, mustRender(t, "").find("Job", namespace, drainJob))
	var ends []int32
	policy := job.Spec.PodFailurePolicy
	if policy == nil {
		t.Fatal("the program would fail again and again, until the Job's deadline takes its log away")
	}
	for _, rule := range policy.Rules {
		if rule.Action == batchv1.PodFailurePolicyActionFailJob && rule.OnExitCodes != nil {
			ends = append(ends, rule.OnExitCodes.Values...)
		}
	}
	pod := job.Spec.Template.Spec
	if !slices.Equal(ends, []int32{int32(drain.ExitCode(errors.New("it failed")))}) || pod.RestartPolicy != corev1.RestartPolicyNever || pod.Containers[0].TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		t.Errorf("exit codes that end it are %v; restart policy %s; message %s", ends, pod.RestartPolicy, pod.Containers[0].TerminationMessagePolicy)
	}
	if log := job.Annotations["helm.sh/hook-output-log-policy"]; log != "hook-succeeded,hook-failed" {
		t.Errorf("helm shows its log %q", log)
	}
}

func TestNothingOfTheDrainingJobIsPartOfTheRelease(t *testing.T) {
	for _, o := range mustRender(t, "") {
		if !strings.HasPrefix(o.GetName(), drainJob) {
			continue
		}
		hook, policy := o.GetAnnotations()["helm.sh/hook"], o.GetAnnotations()["helm.sh/hook-delete-policy"]
		kept := o.GetKind() == "Job" // where it has failed, to be read
		if hook != "pre-delete" || !strings.Contains(policy, "hook-succeeded") || strings.Contains(policy, "hook-failed") == kept {
			t.Errorf("%s is hook %q, deleted %q", title(o), hook, policy)
		}
	}
	for _, o := range mustRender(t, "uninstall: {drain: false}") {
		if strings.HasPrefix(o.GetName(), drainJob) {
			t.Errorf("%s is there although it was not asked for", title(o))
		}
	}
}

// uninstalls uninstalls a release in which sandboxes are left: once while a manager is
// there, once when none is, and once with all that people made.
func (s apiServer) uninstalls(t *testing.T, installed objects) {
	t.Helper()
	stop := s.runManager(t, installed.podOf(t, "signadot-controller-manager"), nil)
	s.leave(t)
	done := s.runDrainingJob(t, stop)
	out := s.helm(t, "", "uninstall", "operator")
	done()
	if !strings.Contains(out, "kept due to the resource policy") {
		t.Errorf("helm does not say what stays:\n%s", out)
	}
	s.expectOnlyPeoplesObjects(t, installed)

	// Nobody is there who could take finalizers off. The definitions are taken over.
	s.helm(t, "uninstall: {waitSeconds: 1}", "install", "operator", chartDir, "--values=-")
	stop = s.runManager(t, installed.podOf(t, "signadot-controller-manager"), nil)
	s.comeBack(t)
	stop()
	done = s.runDrainingJob(t, func() {})
	began := time.Now()
	s.helm(t, "", "uninstall", "operator")
	done()
	t.Logf("without a manager it took %s", time.Since(began))
	s.expectOnlyPeoplesObjects(t, installed)

	const everything = "uninstall: {keep: false, waitSeconds: 1}"
	s.helm(t, "", "install", "operator", chartDir, "--values=-")
	s.helm(t, everything, "upgrade", "operator", chartDir, "--values=-")
	stop = s.runManager(t, installed.podOf(t, "signadot-controller-manager"), nil)
	s.comeBack(t)
	stop()
	done = s.runDrainingJob(t, func() {})
	s.readEveryKind(t, installed)
	s.helm(t, "", "uninstall", "operator")
	done()
	s.expect(t, installed, false)
	s.expectNothingOfTheHook(t)
}

// expectOnlyPeoplesObjects waits until of a release only what is to stay is there, the
// definitions and the authority, and fails unless what leave made is there and free, and
// nothing that was made for it.
func (s apiServer) expectOnlyPeoplesObjects(t *testing.T, installed objects) {
	t.Helper()
	stays := func(o *unstructured.Unstructured) bool {
		// The namespace of values has none, and is deleted by the Job.
		return o.GetAnnotations()["helm.sh/resource-policy"] == "keep" && o.GetKind() != "Namespace"
	}
	goes := func(o *unstructured.Unstructured) bool { return !stays(o) }
	s.expect(t, slices.DeleteFunc(slices.Clone(installed), goes), true)
	s.expect(t, slices.DeleteFunc(slices.Clone(installed), stays), false)
	s.expectNothingOfTheHook(t)
	for kind, want := range map[string]string{"SignadotSandbox": "left", "SignadotRouteGroup": "left", "RoutingConfig": "by-hand"} {
		items, err := s.list("signadot.com/v1", kind)
		if err != nil || len(items) != 1 || items[0].GetName() != want || len(items[0].GetFinalizers()) > 0 || items[0].GetDeletionTimestamp() != nil {
			t.Errorf("of kind %s there are %v: %v", kind, items, err)
		}
	}
}

// leave makes a sandbox, a route group and a RoutingConfig, and waits until they have
// what keeps them from going by themselves.
func (s apiServer) leave(t *testing.T) {
	t.Helper()
	s.create(t, `{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: left}, spec: {id: left}}`)
	s.create(t, `{apiVersion: signadot.com/v1, kind: SignadotRouteGroup, metadata: {name: left}, spec: {routingKey: left-group, sandboxNames: [left]}}`)
	s.create(t, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: by-hand}, spec: {sandboxedWorkloads: []}}`)
	s.comeBack(t)
}

// comeBack waits until what leave made has what is made for it, and our finalizers.
func (s apiServer) comeBack(t *testing.T) {
	t.Helper()
	s.eventually(t, "they have finalizers", func() error {
		var errs []error
		for kind, want := range map[string]int{"SignadotSandbox": 1, "RoutingConfig": 3} {
			items, err := s.list("signadot.com/v1", kind)
			errs = append(errs, err)
			if len(items) != want {
				errs = append(errs, fmt.Errorf("there are %d objects of kind %s", len(items), kind))
			}
			for _, o := range items {
				if len(o.GetFinalizers()) == 0 {
					errs = append(errs, fmt.Errorf("%s has none", title(&o)))
				}
			}
		}
		return errors.Join(errs...)
	})
}

// runDrainingJob does what a node and the controller of Jobs would do: it waits for the
// Job, runs its program with its arguments and under its service account, and says in
// its status how it ended. then is called when the program has ended and helm does not
// know it yet. The function that it gives waits for all that.
func (s apiServer) runDrainingJob(t *testing.T, then func()) (done func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.drainAsTheJob(t, then) }()
	return func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Errorf("the Job ended with %v", err)
		}
	}
}

// drainAsTheJob is one life of the Job.
func (s apiServer) drainAsTheJob(t *testing.T, then func()) error {
	ctx, job := t.Context(), &batchv1.Job{}
	if err := wait.Until(ctx, patience, "there is a Job", func() error {
		return s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: drainJob}, job)
	}); err != nil {
		return err
	}
	drained := s.runJob(t, job, slog.New(slog.NewTextHandler(t.Output(), nil)))
	then()
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime = &now, &now
	job.Status.Succeeded = 1
	for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return errors.Join(drained, s.Status().Update(ctx, job))
}

// runJob runs the program of the Job with its arguments, under its service account.
func (s apiServer) runJob(t *testing.T, job *batchv1.Job, logger *slog.Logger) error {
	settings, err := drain.ParseSettings(job.Spec.Template.Spec.Containers[0].Args, t.Output())
	if err != nil {
		return err
	}
	access := rest.CopyConfig(s.config)
	access.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + job.Spec.Template.Spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return settings.Drain(t.Context(), access, logger)
}

// withoutHooks leaves out what is there only while helm works.
func (all objects) withoutHooks() objects {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()["helm.sh/hook"] != ""
	})
}

// expectNothingOfTheHook waits until nothing is left of the Job and its rights.
func (s apiServer) expectNothingOfTheHook(t *testing.T) {
	t.Helper()
	var left objects
	for _, o := range mustRender(t, "") {
		if strings.HasPrefix(o.GetName(), drainJob) {
			left = append(left, o)
		}
	}
	s.expect(t, left, false)
}
