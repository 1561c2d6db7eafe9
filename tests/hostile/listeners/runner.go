package listeners

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/tests/hostile/questions"
	"switchyard.dev/tools/wait"
	jobclient "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/ticket"
)

// runnerGroup is the name of the group, and runnerWithin how long its pod can take to be ready.
const (
	runnerGroup  = "hostile"
	runnerWithin = 3 * time.Minute
)

// group returns the runner group. Its image is one that the cluster has; the executor needs nothing of it.
func group() *crdv1.JobRunnerGroup {
	return &crdv1.JobRunnerGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: runnerGroup}, Spec: crdv1.JobRunnerGroupSpec{Image: "switchyard.dev/hotrod:dev"},
	}
}

// openRunner creates the runner group, and waits until its pod is ready.
func (w *World) openRunner(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(w.config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	w.deleteRunner = func() error { return client.IgnoreNotFound(c.Delete(context.WithoutCancel(ctx), group())) }
	if err := client.IgnoreAlreadyExists(c.Create(ctx, group())); err != nil {
		return fmt.Errorf("create a runner group: %w", err)
	}
	return wait.Until(ctx, runnerWithin, "the pod of a runner group is ready", func() error {
		list, err := w.client.CoreV1().Pods(runner.Namespace).List(ctx, metav1.ListOptions{LabelSelector: runner.Selector})
		if err == nil && !slices.ContainsFunc(list.Items, isReady) {
			g := group()
			err = c.Get(ctx, client.ObjectKeyFromObject(g), g)
			err = errors.Join(fmt.Errorf("%d pods, and the group has the conditions %v", len(list.Items), g.Status.Conditions), err)
		}
		return err
	})
}

// isReady reports whether a pod is ready.
func isReady(p corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Close deletes what Open has created.
func (w *World) Close() error { return w.deleteRunner() }

// callRunner makes calls of a runner as the Job controller does: with its certificate verified, and a ticket.
func callRunner(w *World, l *Listener) (call, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	keys := &runners.Keeper{Secrets: w.client.CoreV1().Secrets(manager.Namespace), Logger: slog.New(slog.DiscardHandler)}
	if err := keys.Ensure(ctx); err != nil {
		return nil, err
	}
	authority, err := keys.Authority()
	if err != nil {
		return nil, err
	}
	roots, uid := x509.NewCertPool(), string(w.pods[runner.Name][0].UID)
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("the authority of runners is no certificate")
	}
	as := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: jobclient.Name(uid)})
	ask := questions.Patient(func(ctx context.Context, conn *grpc.ClientConn) error {
		shown, _, err := keys.Issue(ticket.Claims{PodUID: uid, JobUID: ticket.AnyJob, User: "hostile", Verbs: []ticket.Verb{ticket.Run}})
		if err != nil {
			return err
		}
		_, err = jobexecv1.NewExecutorClient(conn).Runner(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+shown), &jobexecv1.RunnerRequest{})
		return err
	})
	return func(ctx context.Context) error {
		conn, err := dial(w.address(l, 0), as)
		if err != nil {
			return err
		}
		defer conn.Close()
		return ask(ctx, conn)
	}, nil
}
