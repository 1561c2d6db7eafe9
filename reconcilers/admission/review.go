package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/workflows/iocontext/store"
)

// Path is where the API server asks.
const Path = "/validate-signadot-com-v1"

// patience is the time limit of an answer, less than the webhook's timeout, so that the author gets the
// message that it was a timeout and not a denial.
const patience = 3 * time.Second

// renderedAtOnce is the number of objects with concurrently rendered patches.
const renderedAtOnce = 2

// Questions to the API server, per second and at once: apart from those of the
// controllers, so that authors cannot keep them waiting.
const (
	questionsPerSecond = 200
	questionsBurst     = 400
)

// Config has the dependencies and settings of a Reviewer.
type Config struct {
	// Client reads baselines from the cache. Required.
	Client client.Reader
	// REST reaches the API server, to ask it. Required.
	REST *rest.Config
	// Exempt are users without a check: the operator's own service accounts, by their full names.
	Exempt []string
	// OperatorNamespace is where the operator lives. Required.
	OperatorNamespace string
	// Values has the namespaces of the values of units. Default: OperatorNamespace.
	Values store.Store
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// Powers are those that the patches of any user may add.
	Powers power.Powers
	// Limits bound the requests of one object.
	Limits Limits
	// Delegates are accounts that write on behalf of other users.
	Delegates Delegates
	// Logger logs failures; slog.Default() if it is nil.
	Logger *slog.Logger
}

// Validate returns an error if a required field is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.REST == nil || c.OperatorNamespace == "" {
		return errors.New("authors: Client, REST and OperatorNamespace are required")
	}
	return nil
}

// Reviewer answers AdmissionReviews. It is safe for use by several goroutines.
type Reviewer struct {
	config Config
	asker  *asker
	// values has the values that units have given, read without a cache. A zero Store is empty.
	values store.Store
	// rendering limits the number of objects with concurrently rendered patches.
	rendering chan struct{}
}

// New returns a Reviewer, or an error if the configuration is invalid.
func New(c Config) (*Reviewer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Limits = c.Limits.WithDefaults()
	access := rest.CopyConfig(c.REST)
	access.QPS, access.Burst, access.RateLimiter = questionsPerSecond, questionsBurst, nil
	asking, err := client.New(access, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("authors: %w", err)
	}
	r := newReviewer(c, newAsker(asking, time.Now))
	r.values, err = store.Open(access, cmp.Or(c.Values.Namespace, c.OperatorNamespace))
	r.values.Earlier = c.Values.Earlier
	return r, err
}

func newReviewer(c Config, a *asker) *Reviewer {
	return &Reviewer{config: c, asker: a, rendering: make(chan struct{}, renderedAtOnce)}
}

// Kinds returns an empty object of each kind with checked authors, by its name.
func Kinds() map[string]runtime.Object {
	out := map[string]runtime.Object{}
	for _, kind := range crdv1.SupportedKinds() {
		out[kind.Name] = kind.New()
	}
	return out
}

// Review answers one request: whether its author has the rights that the operator will use
// for it. It changes nothing, so it answers dry runs as it answers all others.
func (r *Reviewer) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (answer *admissionv1.AdmissionResponse) {
	defer func() {
		if fault := recover(); fault != nil {
			r.config.Logger.Error("an author could not be asked about", "kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name, "panic", fmt.Sprint(fault))
			answer = Refused(http.StatusInternalServerError, metav1.StatusReasonInternalError, "whether you may write this could not be found out, for a fault of the operator's; its log has the reason")
		}
	}()
	change := ChangeOf(req)
	if slices.Contains(r.config.Exempt, req.UserInfo.Username) || change == (Change{}) {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	in, refusal := r.read(req, change)
	if refusal != nil {
		return refusal
	}
	attributed, err := r.config.Delegates.attribute(req, in)
	if err != nil {
		return Refused(http.StatusForbidden, metav1.StatusReasonForbidden, name(req)+": "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer = r.review(ctx, attributed, in)
	if user := attributed.UserInfo.Username; !answer.Allowed && user != req.UserInfo.Username {
		answer.Result.Message = "on behalf of " + user + ": " + answer.Result.Message
	}
	return answer
}

// read returns the Input of a request, or the refusal of one that cannot be read.
func (r *Reviewer) read(req *admissionv1.AdmissionRequest, change Change) (Input, *admissionv1.AdmissionResponse) {
	kind, known := Kinds()[req.Kind.Kind]
	o, is := kind.(crdv1.Object)
	if !known || !is || req.Kind.Group != crdv1.Group {
		return Input{}, Refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the operator was asked about an object of kind "+req.Kind.Kind+", which it knows nothing of: its webhook is registered wrongly")
	}
	if err := json.Unmarshal(req.Object.Raw, o); err != nil {
		return Input{}, Refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("the object cannot be read: %v", err))
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(req.Namespace)
	}
	in := r.input(o)
	in.Change, in.Resource = change, req.Resource.Resource
	if req.Operation == admissionv1.Update {
		in.Before, _ = Kinds()[req.Kind.Kind].(crdv1.Object)
		if json.Unmarshal(req.OldObject.Raw, in.Before) != nil {
			in.Before = nil // Then it counts as new.
		}
	}
	return in, nil
}

// review answers for an object with an author to check. The objects that its patches read are computed
// only if the author has the rights to its workloads: it takes time, and the message of a denial
// reveals parts of the baseline.
func (r *Reviewer) review(ctx context.Context, req *admissionv1.AdmissionRequest, in Input) *admissionv1.AdmissionResponse {
	if ofSmartTests(in.Object) {
		return reviewSmartTests(req)
	}
	if in.Change.Spec {
		kept, err := r.kept(ctx, req, in.Object)
		if err != nil {
			return r.later(req, err)
		}
		in.Kept = kept
		if in.Captured, err = r.captured(ctx, in.Object); err != nil {
			return r.later(req, err)
		}
	}
	if answer := r.decided(ctx, req, Decide(in)); !answer.Allowed {
		return answer
	}
	if !in.Change.Spec || len(References(in.Object, r.config.OperatorNamespace)) == 0 {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	d, err := r.rendered(ctx, in)
	if err != nil {
		return r.later(req, err)
	}
	return r.decided(ctx, req, d)
}

// rendered decides with the objects that patches read; few run concurrently. An error means that it
// took too long, or that a baseline could not be read.
func (r *Reviewer) rendered(ctx context.Context, in Input) (Decision, error) {
	select {
	case r.rendering <- struct{}{}:
		defer func() { <-r.rendering }()
	case <-ctx.Done():
		return Decision{}, ctx.Err()
	}
	in, err := r.gather(ctx, in)
	if err != nil {
		return Decision{}, err
	}
	in.GivenUp = func() bool { return ctx.Err() != nil }
	d := Decide(in)
	return d, ctx.Err()
}

// decided answers according to the decision and the author's rights.
func (r *Reviewer) decided(ctx context.Context, req *admissionv1.AdmissionRequest, d Decision) *admissionv1.AdmissionResponse {
	if len(d.Wants) > mostWants {
		d.TooMuch = fmt.Sprintf("it takes %d rights, and at most %d can be asked about: split it into several objects", len(d.Wants), mostWants)
	}
	if d.TooMuch != "" {
		return Refused(http.StatusForbidden, metav1.StatusReasonForbidden, name(req)+" asks for too much: "+d.TooMuch)
	}
	lacking, err := r.asker.lacking(ctx, req.UserInfo, d.Wants)
	if err != nil {
		return r.later(req, err)
	}
	if len(lacking) > 0 {
		return Refused(http.StatusForbidden, metav1.StatusReasonForbidden, name(req)+" needs rights that you do not have: "+Refusal(lacking))
	}
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// later denies a request because the author's rights could not be checked. The client can retry.
func (r *Reviewer) later(req *admissionv1.AdmissionRequest, err error) *admissionv1.AdmissionResponse {
	r.config.Logger.Warn("an author could not be asked about", "kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name, "error", err)
	return Refused(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf(
		"%s: whether you have the rights that it takes could not be found out (%.300s): try again", name(req), err))
}

// Refused is an answer that refuses a request.
func Refused(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// name returns the name of the object of a request for messages.
func name(req *admissionv1.AdmissionRequest) string {
	return baseline.Describe(crdv1.ObjectRef{Kind: req.Kind.Kind, Namespace: req.Namespace, Name: req.Name})
}

// input returns the Input for an object, without its baselines.
func (r *Reviewer) input(o crdv1.Object) Input {
	return Input{Object: o, OperatorNamespace: r.config.OperatorNamespace, Powers: r.config.Powers, Limits: r.config.Limits}
}

// gather reads the baselines that patches of an object are for, from the cache.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
func (r *Reviewer) gather(ctx context.Context, in Input) (Input, error) {
	in.Baselines = map[crdv1.ObjectRef]Baseline{}
	for _, ref := range References(in.Object, r.config.OperatorNamespace) {
		if n := r.config.Namespaces; len(n) > 0 && !slices.Contains(n, ref.Namespace) {
			in.Baselines[ref] = Baseline{Missing: "is where the operator may not look (allowedNamespaces)"}
			continue
		}
		live, err := baseline.Read(ctx, r.config.Client, ref)
		if err != nil {
			return in, err
		}
		switch {
		case live == nil:
			in.Baselines[ref] = Baseline{Missing: "does not exist"}
		case live.Problem != "":
			in.Baselines[ref] = Baseline{Missing: "cannot be forked: " + live.Problem}
		default:
			in.Baselines[ref] = Baseline{Live: live}
		}
	}
	return in, nil
}

// captured returns the baselines of the forks and external workloads that a capture is of, from the cache; nil for other kinds.
func (r *Reviewer) captured(ctx context.Context, o any) (out []crdv1.ObjectRef, err error) {
	c, is := o.(*crdv1.TrafficCapture)
	if !is {
		return nil, nil
	}
	of := client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(c.Spec.Sandbox)}
	all, err := publish.Members(ctx, r.config.Client, client.InNamespace(c.Namespace), of)
	if err != nil {
		return nil, fmt.Errorf("read the members of SignadotSandbox %s: %w", c.Spec.Sandbox, err)
	}
	for _, m := range all {
		ref, is := m.BaselineRef()
		if is && m.MemberKind() != crdv1.KindVirtualWorkload && (c.Spec.Workload == "" || c.Spec.Workload == m.GetName() || c.Spec.Workload == ref.Name) {
			out = append(out, ref)
		}
	}
	return out, nil
}
