package specs

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
)

// lookAgain is how long a command waits before it looks at a sandbox again.
const lookAgain = time.Second

// reasonResourceFailed is the reason of a sandbox that will not become ready.
const reasonResourceFailed = "ResourceFailed"

// awaitReady waits until a sandbox is ready in the form in which it was written, and says
// meanwhile what it waits for.
func awaitReady(ctx context.Context, s *session.Session, cluster client.Client, written *crdv1.SignadotSandbox, patience time.Duration) error {
	told := ""
	o, err := watched(ctx, s, cluster, written, patience, func(o *crdv1.SignadotSandbox) (done bool, err error) {
		r := reportOf(o)
		switch {
		case o.UID != written.UID || o.DeletionTimestamp != nil:
			return true, exit.No.Errorf("sandbox %s was deleted meanwhile", o.Name)
		case r.Status.Ready:
			return true, nil
		case r.Status.Reason == reasonResourceFailed:
			return true, exit.No.Errorf("sandbox %s will not become ready: %s", o.Name, r.Status.Message)
		case r.Status.Message != told:
			told = r.Status.Message
			_, _ = fmt.Fprintln(s.Err, show.Line("not ready: "+told))
		}
		return false, nil
	})
	switch {
	case errors.Is(err, errImpatient):
		return exit.No.Errorf("sandbox %s is not ready after %s: %s", written.Name, patience, told)
	case apierrors.IsNotFound(err):
		return exit.No.Errorf("sandbox %s was deleted meanwhile", written.Name)
	case err != nil:
		return err
	}
	r := reportOf(o)
	return s.Show.Report(r, r.text(s))
}

// awaitGone waits until a sandbox is gone, and says meanwhile what it waits for.
func awaitGone(ctx context.Context, s *session.Session, cluster client.Client, there *crdv1.SignadotSandbox, patience time.Duration) error {
	told := ""
	_, err := watched(ctx, s, cluster, there, patience, func(o *crdv1.SignadotSandbox) (done bool, err error) {
		if message := reportOf(o).Status.Message; o.UID == there.UID && message != told {
			told = message
			_, _ = fmt.Fprintln(s.Err, show.Line("not gone: "+told))
		}
		return o.UID != there.UID, nil
	})
	switch {
	case errors.Is(err, errImpatient):
		return exit.No.Errorf("sandbox %s is not gone after %s: %s", there.Name, patience, told)
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// errImpatient: it took too long.
var errImpatient = errors.New("it took too long")

// watched looks at a sandbox again and again until done says so, or it took too long.
func watched(ctx context.Context, s *session.Session, cluster client.Client, like *crdv1.SignadotSandbox, patience time.Duration,
	done func(*crdv1.SignadotSandbox) (bool, error)) (*crdv1.SignadotSandbox, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		o := &crdv1.SignadotSandbox{}
		one, cancel := s.Patiently(ctx)
		err := cluster.Get(one, client.ObjectKeyFromObject(like), o)
		cancel()
		if err != nil {
			return nil, refused("read", like.Name, err)
		}
		if ended, err := done(o); ended || err != nil {
			return o, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return o, errImpatient
		case <-time.After(lookAgain):
		}
	}
}
