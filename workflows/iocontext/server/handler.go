package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/store"
)

// served is the handler of a request of an authenticated pod.
type served func(w http.ResponseWriter, r *http.Request, who tokens.Identity, a asked) error

// handler serves the API.
func (m *Main) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/units/{lifecycle}/{unit}/assignment", m.known("assignment", m.assign))
	mux.HandleFunc("PUT /v1/units/{lifecycle}/{unit}/outputs/{output}", m.known("output", m.keep))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		m.answer(w, "nothing", refuse(http.StatusNotFound, iocontext.BadRequest, "a step's pod may GET its assignment and PUT its outputs, and nothing else"))
	})
	return mux
}

// known wraps a handler that serves authenticated pods.
func (m *Main) known(what string, serve served) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m.answer(w, what, m.admit(w, r, serve))
	}
}

func (m *Main) admit(w http.ResponseWriter, r *http.Request, serve served) error {
	who, err := m.identify(r)
	if err != nil {
		m.slow(r)
		return err
	}
	leave, err := m.pods.Enter(podOf(who))
	if err != nil {
		return busy(err)
	}
	defer leave()
	a, err := read(r)
	if err != nil {
		return err
	}
	return serve(w, r, who, a)
}

// slow delays the response to an unknown caller that is refused too often: a client that retries
// immediately could otherwise use all of the processor with few connections.
func (m *Main) slow(r *http.Request) {
	if leave, err := m.refused.Enter(callers.At(r.RemoteAddr)); err == nil {
		leave()
		return
	}
	wake.Sleep(r.Context(), m.cfg.Penalty)
}

// answer writes the response for an error; for nil it only counts the request.
func (m *Main) answer(w http.ResponseWriter, what string, err error) {
	if err == nil {
		m.requests.WithLabelValues(what, "").Inc()
		return
	}
	var why *refusal
	if !errors.As(err, &why) {
		// A message of the API server may repeat the data that it was sent.
		why = refuse(http.StatusServiceUnavailable, iocontext.TryAgain, "the values are out of reach at the moment: try again")
		m.cfg.Logger.Warn("a request could not be served", "what", what, "error", err)
	}
	m.requests.WithLabelValues(what, why.Reason).Inc()
	w.Header().Set("Content-Type", "application/json")
	if why.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(why.status)
	_ = json.NewEncoder(w).Encode(why.Refusal) // an error means that the client has closed
}

// podOf returns the caller of a pod.
func podOf(who tokens.Identity) callers.Caller {
	return callers.Caller{Kind: callers.Pod, Name: who.Namespace + "/" + who.PodUID}
}

// hold waits for a place among the requests that may have values in memory, of which a pod has at
// most two. leave may be called twice.
func (m *Main) hold(ctx context.Context, who tokens.Identity) (leave func(), err error) {
	release, err := m.places.Enter(podOf(who))
	if err != nil {
		return nil, busy(err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case m.heavy <- struct{}{}:
		return sync.OnceFunc(func() { <-m.heavy; release() }), nil
	case <-late.C:
	case <-ctx.Done():
	}
	release()
	return nil, refuse(http.StatusServiceUnavailable, iocontext.TryAgain, "%d others are served at the moment: try again", atOnce)
}

// assign sends the assignment of a unit. A pod reads one assignment at a time, which is verified
// before anything is read for it.
func (m *Main) assign(w http.ResponseWriter, r *http.Request, who tokens.Identity, a asked) error {
	end, err := m.answers.Enter(podOf(who))
	if err != nil {
		return busy(err)
	}
	defer end()
	of, err := m.assigned(r.Context(), who, a)
	if err != nil {
		return err
	}
	leave, err := m.hold(r.Context(), who)
	if err != nil {
		return err
	}
	defer leave()
	// The status is checked last: if another attempt began in between, the data read may be of
	// that one.
	assignment, err := m.assignment(r.Context(), of)
	if err != nil {
		return err
	}
	if _, err := m.assigned(r.Context(), who, a); err != nil {
		return err
	}
	text, err := json.Marshal(assignment)
	if err != nil {
		return err
	}
	if size := int64(len(text)); size > smallAnswer {
		if !m.answered.TryAcquire(size) {
			return busy(errors.New("too many large assignments are being read: try again"))
		}
		defer m.answered.Release(size)
	}
	leave() // a pod that reads slowly occupies no place
	m.cfg.Logger.Info("given", "lifecycle", a.lifecycle, "unit", a.unit, "pod", who.Namespace+"/"+who.PodName, "inputs", len(assignment.Inputs))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyWithin)); err != nil {
		return err
	}
	_, _ = w.Write(text) // a pod that has closed the connection requests it again
	return nil
}

// busy refuses a request that can be sent again.
func busy(err error) *refusal {
	return refuse(http.StatusServiceUnavailable, iocontext.TryAgain, "%v", err)
}

// assigned returns the unit of the request if the pod may have its script and inputs.
func (m *Main) assigned(ctx context.Context, who tokens.Identity, a asked) (work, error) {
	of, err := m.find(ctx, who, a)
	if err != nil {
		return of, err
	}
	return of, of.current()
}

// assignment returns the assignment of a unit.
func (m *Main) assignment(ctx context.Context, of work) (iocontext.Assignment, error) {
	var out iocontext.Assignment
	template := cmp.Or(of.unit.ExecUnitTemplate, &crdv1.ExecUnitTemplate{})
	out.Script = template.Script
	for _, o := range template.OutputExports {
		out.Outputs = append(out.Outputs, iocontext.Output{Name: o.OutputName, Path: o.FromPath})
	}
	total := 0
	for _, input := range of.unit.Inputs {
		value, err := m.value(ctx, of.lifecycle, input)
		if err != nil {
			return out, err
		}
		copies := injected(input, value, template.InputInjects)
		if total += len(copies) * len(value); total > iocontext.MaxInputs {
			return out, refuse(http.StatusForbidden, iocontext.InputsTooLarge,
				"the inputs of step %s have more than %d bytes together, each counted once per variable and file: give it fewer, or smaller ones", of.unit.Name, iocontext.MaxInputs)
		}
		out.Inputs = append(out.Inputs, copies...)
	}
	return out, nil
}

// injected returns an input for each destination; the first has the value.
func injected(input crdv1.WorkUnitInput, value []byte, places []crdv1.InputInject) []iocontext.Input {
	one := iocontext.Input{Name: input.Name, Value: value}
	if input.IOContext != nil {
		one.From = input.IOContext.Key
	}
	all := []iocontext.Input{one}
	for _, place := range places {
		if place.InputName != input.Name {
			continue
		}
		if first := &all[0]; first.Env == "" && first.Path == "" {
			first.Env, first.Path = place.Dst.Env, place.Dst.LocalPath
			continue
		}
		one.Env, one.Path = place.Dst.Env, place.Dst.LocalPath
		all = append(all, one)
	}
	return all
}

// value returns the value of an input.
func (m *Main) value(ctx context.Context, of *crdv1.SignadotObjectLifecycleMethods, input crdv1.WorkUnitInput) ([]byte, error) {
	from := input.IOContext
	if from == nil {
		return []byte(input.Value), nil
	}
	if from.Name != "" && from.Name != of.Spec.IOContextName {
		return nil, refuse(http.StatusForbidden, iocontext.OtherContext, "input %s is to come from the IO context %s, and the step's own is %s: "+
			"a step has the values of its own alone", input.Name, from.Name, of.Spec.IOContextName)
	}
	value, found, err := m.cfg.Store.Get(ctx, of, from.Key)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refuse(http.StatusForbidden, iocontext.InputMissing, "no value of %s is kept, which input %s is to have: "+
			"its Secret may have been deleted. The step that gives it has to run again", from.Key, input.Name)
	}
	return value, nil
}

// keep stores an output. A pod sends one at a time, which is verified before anything is read for
// it.
func (m *Main) keep(w http.ResponseWriter, r *http.Request, who tokens.Identity, a asked) error {
	output := r.PathValue("output")
	if !partName.MatchString(output) {
		return refuse(http.StatusBadRequest, iocontext.BadRequest, "the path names no output")
	}
	end, err := m.bodies.Enter(podOf(who))
	if err != nil {
		return busy(err)
	}
	defer end()
	of, err := m.find(r.Context(), who, a)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(of.unit.Outputs, func(o crdv1.WorkUnitOutput) bool { return o.Name == output }) {
		return refuse(http.StatusForbidden, iocontext.OutputUnknown, "step %s has no output %s", a.unit, output)
	}
	if r.ContentLength > iocontext.MaxValue {
		return tooLarge(output, strconv.FormatInt(r.ContentLength, 10))
	}
	value, free, err := m.receive(w, r, output)
	if err != nil {
		return err
	}
	defer free()
	leave, err := m.hold(r.Context(), who)
	if err != nil {
		return err
	}
	defer leave()
	err = m.cfg.Store.Put(r.Context(), of.lifecycle, iocontext.OutputKey(a.unit, output), value, store.Giver{Pod: who.PodUID, Rights: of.grant.Rights}, func(ctx context.Context) error {
		_, err := m.find(ctx, who, a)
		return err
	})
	if err != nil {
		return err
	}
	m.cfg.Logger.Info("kept", "lifecycle", a.lifecycle, "unit", a.unit, "output", output, "pod", who.Namespace+"/"+who.PodName, "bytes", len(value))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// receive reads the value of an output before the request takes a place, within bodyWithin. Memory is
// reserved as the value arrives, until free is called.
func (m *Main) receive(w http.ResponseWriter, r *http.Request, output string) (value []byte, free func(), err error) {
	reserved := int64(0)
	release := func() { m.memory.Release(reserved) }
	defer func() {
		if err != nil {
			release()
		}
	}()
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyWithin)); err != nil {
		return nil, nil, busy(err)
	}
	body := http.MaxBytesReader(w, r.Body, iocontext.MaxValue)
	for part := make([]byte, chunk); ; {
		if !m.memory.TryAcquire(chunk) {
			return nil, nil, busy(errors.New("too many outputs are being received: try again"))
		}
		reserved += chunk
		n, wrong := io.ReadFull(body, part)
		value = append(value, part[:n]...)
		switch many := (*http.MaxBytesError)(nil); {
		case errors.As(wrong, &many):
			return nil, nil, tooLarge(output, "more")
		case errors.Is(wrong, io.EOF), errors.Is(wrong, io.ErrUnexpectedEOF) && r.ContentLength < 0, int64(len(value)) == r.ContentLength:
			return value, release, control.SetReadDeadline(time.Time{})
		case wrong != nil:
			return nil, nil, refuse(http.StatusBadRequest, iocontext.BadRequest, "the value of output %s did not arrive whole within %s: send it again", output, bodyWithin)
		}
	}
}

func tooLarge(output, bytes string) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, iocontext.OutputTooLarge, "output %s may have %d bytes, and has %s: "+
		"store large data elsewhere, and give its address", output, iocontext.MaxValue, bytes)
}
