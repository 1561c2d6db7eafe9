package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext"
)

// refusal is an error response, as an error.
type refusal struct {
	status int
	iocontext.Refusal
}

func refuse(status int, reason, format string, args ...any) *refusal {
	return &refusal{status, iocontext.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// asked is the object and unit of a request.
type asked struct{ lifecycle, unit string }

// Names of objects, and of units and outputs.
var (
	objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	partName   = regexp.MustCompile(`^[a-zA-Z]([a-zA-Z0-9-]{0,28}[a-zA-Z0-9])?$`)
)

// read returns the object and unit of a request.
func read(r *http.Request) (asked, error) {
	a := asked{r.PathValue("lifecycle"), r.PathValue("unit")}
	if !objectName.MatchString(a.lifecycle) || !partName.MatchString(a.unit) {
		return a, refuse(http.StatusBadRequest, iocontext.BadRequest, "the path names no SignadotObjectLifecycleMethods, or no step of one")
	}
	return a, nil
}

// identify returns the pod that sends a request.
func (m *Main) identify(r *http.Request) (tokens.Identity, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return tokens.Identity{}, refuse(http.StatusUnauthorized, iocontext.TokenRefused,
			"send 'authorization: Bearer TOKEN' with the token of a pod that is made for the audience %s", iocontext.Audience)
	}
	who, err := m.cfg.Tokens.VerifyAdmitted(r.Context(), token, func(signed *tokens.Claim) (func(), error) {
		return m.checks.Enter(streams.Charged(r.RemoteAddr, signed))
	})
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return who, refuse(http.StatusUnauthorized, iocontext.TokenRefused, "%v", err)
	case err != nil:
		m.cfg.Logger.Debug("a token could not be checked", "error", err)
		return who, refuse(http.StatusServiceUnavailable, iocontext.TryAgain, "the token could not be checked: try again")
	case who.PodName == "" || who.PodUID == "":
		return who, refuse(http.StatusForbidden, iocontext.NotYours, "the token is that of the account %s, and of no pod", who)
	}
	m.onAPI.Identify(r.RemoteAddr)
	return who, nil
}

// work is a unit that a pod runs.
type work struct {
	lifecycle *crdv1.SignadotObjectLifecycleMethods
	unit      crdv1.WorkUnit
	// grant is the operator's for the pod.
	grant grant.Grant
}

// current returns an error if the unit was changed after the pod had been created. The changed unit may
// have another author, so the pod receives neither its script nor its inputs. Outputs of
// the earlier form are kept, with the rights in the grant: its script has run, and may not run again.
func (w work) current() error {
	if w.grant.Form == engine.Form(w.unit) {
		return nil
	}
	return refuse(http.StatusForbidden, iocontext.UnitChanged, "the specification of step %s was changed after pod %s/%s had been created: "+
		"the step begins again in another pod", w.unit.Name, w.grant.Namespace, w.grant.Pod)
}

// find returns the unit of the request if the operator has granted its attempt to the pod and the
// attempt runs. Any other pod gets the same answer whether there is such a unit or not; only the pod
// that the status names for the next attempt gets the answer to ask again.
func (m *Main) find(ctx context.Context, who tokens.Identity, a asked) (work, error) {
	of := &crdv1.SignadotObjectLifecycleMethods{}
	err := m.cfg.Store.Client.Get(ctx, client.ObjectKey{Name: a.lifecycle}, of)
	if err != nil && !apierrors.IsNotFound(err) {
		m.cfg.Logger.Warn("a SignadotObjectLifecycleMethods cannot be read", "name", a.lifecycle, "error", err)
		return work{}, refuse(http.StatusServiceUnavailable, iocontext.TryAgain, "the API server did not report which pod runs the step: try again")
	}
	waits := false
	if err == nil {
		for _, phase := range []struct {
			units  []crdv1.WorkUnit
			status []crdv1.WorkUnitStatus
		}{{of.Spec.PreStart, of.Status.PreCreate}, {of.Spec.PostStop, of.Status.PostStop}} {
			for _, u := range phase.units {
				if u.Name != a.unit {
					continue
				}
				st := *cmp.Or(engine.StatusOf(phase.status, a.unit), &crdv1.WorkUnitStatus{Name: a.unit})
				if granted, ok := m.runs(who, of, st); ok {
					return work{of, u, granted}, nil
				}
				waits = waits || isNext(who, st)
			}
		}
	}
	if waits {
		return work{}, refuse(http.StatusConflict, iocontext.NotYet, "the status of step %s does not have the UID of the pod yet: ask again", a.unit)
	}
	return work{}, refuse(http.StatusForbidden, iocontext.NotYours, "pod %s/%s (%s) does not run step %s of SignadotObjectLifecycleMethods %s",
		who.Namespace, who.PodName, who.PodUID, a.unit, a.lifecycle)
}

// runs reports whether a pod runs the unit of this status, and returns the operator's grant for it.
// Other users may be able to write the status: only the grant counts, and it ends with the phase.
func (m *Main) runs(who tokens.Identity, of *crdv1.SignadotObjectLifecycleMethods, s crdv1.WorkUnitStatus) (grant.Grant, bool) {
	if s.Phase != crdv1.UnitRunning || s.PodUID != who.PodUID || !names(s, who) {
		return grant.Grant{}, false
	}
	bundle, _ := m.cfg.TLS.Roots().Bundle()
	authorities, err := trust.ReadBundle(bundle)
	if err != nil {
		m.cfg.Logger.Error("grants of pods cannot be verified", "error", err)
		return grant.Grant{}, false
	}
	g, err := grant.Verify(s.Grant, authorities)
	if err != nil {
		m.cfg.Logger.Warn("the status names a pod without a grant of the operator: another user or an earlier version of the operator wrote it",
			"lifecycle", of.Name, "unit", s.Name, "pod", who.Namespace+"/"+who.PodName, "error", err)
		return grant.Grant{}, false
	}
	return g, g.Lifecycle == of.UID && g.Unit == s.Name && g.Attempt == s.Attempt &&
		g.Namespace == who.Namespace && g.Pod == who.PodName && g.PodUID == who.PodUID
}

// names reports whether a status has a pod.
func names(s crdv1.WorkUnitStatus, who tokens.Identity) bool {
	return s.ExecUnit != nil && s.ExecUnit.Namespace == who.Namespace && s.ExecUnit.Name == who.PodName
}

// isNext reports whether a pod has the name that is recorded for the next attempt of a unit: it
// was created, and the update of the status with its UID follows.
func isNext(who tokens.Identity, s crdv1.WorkUnitStatus) bool {
	return s.Phase == crdv1.UnitStarting && s.PodUID == "" && names(s, who)
}
