package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/tools/switchyard/local/privileges"
	"switchyard.dev/tools/switchyard/local/status"
	"switchyard.dev/tunnels/workstation"
)

// Names of the checks.
const (
	ofKubeconfig = "kubeconfig"
	ofCluster    = "API server"
	ofForward    = "rights to forward a port"
	ofRoad       = "a tunnel proxy is reached"
	ofRoots      = "trusted authority"
	ofToken      = "token"
	ofSession    = "the proxy accepts this workstation"
	ofAPI        = "tunnel-api answers"
	ofSandbox    = "sandbox"
)

// examined is the input of doctor, and its intermediate results.
type examined struct {
	place
	sandbox    string
	privileged bool

	kube   kubernetes.Interface
	stop   context.CancelFunc
	w      *workstation.Workstation
	api    tunnelv1.TunnelAPIClient
	conn   *grpc.ClientConn
	object *crdv1.SignadotSandbox
}

// end closes everything that the checks have opened.
func (e *examined) end() {
	if e.conn != nil {
		_ = e.conn.Close()
	}
	if e.stop != nil {
		e.stop()
	}
}

// checks returns all of them, in the order in which they are needed.
func (e *examined) checks() []check {
	out := []check{{ofKubeconfig, nil, e.kubeconfig}, {ofCluster, []string{ofKubeconfig}, e.cluster}}
	direct := e.address != "" || e.proxyURL() != ""
	if direct { // Without a kubeconfig as well, with --ca and --token-file.
		out = out[:0]
	}
	if !direct {
		out = append(out, check{ofForward, []string{ofCluster}, e.mayForward})
	}
	out = append(out,
		check{ofRoad, []string{ofCluster, ofForward}, e.reached},
		check{ofRoots, []string{ofCluster}, e.trusted},
		check{ofToken, []string{ofCluster}, e.known},
		check{ofSession, []string{ofRoad, ofRoots, ofToken}, e.taken},
		check{ofAPI, []string{ofSession}, e.answers})
	if e.privileged {
		out = append(out, check{"the kernel redirects connections into the cluster", nil, mayLead})
	}
	if e.sandbox != "" {
		out = append(out, check{ofSandbox, []string{ofCluster}, e.theSandbox})
		out = append(out, check{"the operator's report", []string{ofSandbox}, e.seen})
		out = append(out, check{"you may write the sandbox", []string{ofAPI, ofSandbox}, e.mayWrite})
		out = append(out, check{"local addresses are allowed", []string{ofSandbox}, e.allowed})
		out = append(out, check{"local processes listen", []string{ofSandbox}, e.locals})
	}
	return out
}

func (e *examined) kubeconfig(context.Context) (string, error) {
	at, err := e.context()
	if err != nil {
		return "", wrong(err.Error(), "name a kubeconfig with --kubeconfig or KUBECONFIG, or connect without one through --address or --proxy-url")
	}
	config, err := at.Rest()
	if err != nil {
		return "", wrong(err.Error(), "correct the kubeconfig")
	}
	if e.kube, err = kubernetes.NewForConfig(config); err != nil {
		return "", wrong(err.Error(), "correct the kubeconfig")
	}
	if name := e.s.Cluster.ContextName(); name != "" {
		return "context " + name + ", " + config.Host, nil
	}
	return config.Host, nil
}

func (e *examined) cluster(ctx context.Context) (string, error) {
	who, err := e.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return "", wrong(reach.Stranger, reach.Login+"; a running connection then reconnects without a restart")
	case err != nil:
		return "", wrong(err.Error(), "check that the cluster runs, and that no VPN or proxy is missing")
	}
	return "you are " + who.Status.UserInfo.Username, nil
}

func (e *examined) mayForward(ctx context.Context) (string, error) {
	var lacks []string
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "pods"}, {Verb: "create", Resource: "pods", Subresource: "portforward"},
	} {
		right.Namespace = e.s.Cluster.Namespace
		got, err := e.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if !got.Status.Allowed {
			lacks = append(lacks, strings.TrimSuffix(right.Verb+" "+right.Resource+"/"+right.Subresource, "/"))
		}
	}
	if len(lacks) > 0 {
		return "", wrong(fmt.Sprintf("in namespace %s you may not %s", e.s.Cluster.Namespace, strings.Join(lacks, ", nor ")),
			"ask for these rights, or for the address of a proxy, for --address")
	}
	return "", nil
}

func (e *examined) reached(ctx context.Context) (string, error) {
	c, err := e.road().Dial(ctx)
	if err != nil && e.proxyURL() != "" {
		return "", wrong(err.Error(), "check that "+plane.KeyVariable+" contains the API key, and that --cluster is the name of the cluster in the control plane")
	}
	if err != nil {
		return "", wrong(err.Error(), "check that a pod of Deployment tunnel-proxy is ready: kubectl get pods -n "+e.s.Cluster.Namespace+" -l "+tunnelProxy.Pods)
	}
	return "", c.Close()
}

func (e *examined) trusted(ctx context.Context) (string, error) {
	if err := e.prepare(); err != nil {
		return "", err
	}
	if err := e.refresh(ctx); err != nil {
		says, do, _ := strings.Cut(err.Error(), ". ")
		return "", wrong(says, do)
	}
	return "", nil
}

func (e *examined) known(ctx context.Context) (string, error) {
	if err := e.prepare(); err != nil {
		return "", err
	}
	if _, err := e.token(ctx, false); err != nil {
		says, do, _ := strings.Cut(err.Error(), ": ")
		return "", wrong(says, do)
	}
	return "", nil
}

// taken connects once without requesting any workload, so that no other client loses a tunnel.
func (e *examined) taken(ctx context.Context) (string, error) {
	w, err := e.workstation()
	if err != nil {
		return "", err
	}
	s, welcome, err := w.Try(ctx, 1)
	if err != nil {
		var trouble *workstation.Trouble
		do := "ask an administrator of the operator: the log of tunnel-proxy has the cause"
		if errors.As(err, &trouble) && trouble.Part == workstation.PartCertificate {
			do = "do not go on: what answers may not be the operator's. Is the authority of --ca, or the kubeconfig's cluster, another one?"
		} else if errors.As(err, &trouble) && trouble.Part == workstation.PartToken {
			do = "log in again, or come as a service account, with --as-service-account NAMESPACE/NAME"
		}
		return "", wrong(err.Error(), do)
	}
	s.Close(nil)
	return fmt.Sprintf("%s, as %s", welcome.GetProxy(), welcome.GetUser()), nil
}

func (e *examined) answers(ctx context.Context) (string, error) {
	w, err := e.workstation()
	if err != nil {
		return "", err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop, e.w = stop, w
	go func() { _ = w.Run(running) }()
	if e.api, e.conn, err = e.asked(w); err != nil {
		return "", err
	}
	got, err := e.api.GetOperatorInfo(ctx, &tunnelv1.GetOperatorInfoRequest{})
	if err != nil {
		return "", wrong(err.Error(), "check that a pod of Deployment tunnel-api is ready: kubectl get pods -n "+e.s.Cluster.Namespace+" -l app=tunnel-api")
	}
	return "operator " + got.GetVersion() + ", domain " + got.GetClusterDomain(), nil
}

func (e *examined) theSandbox(ctx context.Context) (string, error) {
	c, err := e.s.Writer()
	if err != nil {
		return "", err
	}
	o := &crdv1.SignadotSandbox{}
	if err := c.Get(ctx, client.ObjectKey{Name: e.sandbox}, o); err != nil {
		return "", wrong(err.Error(), "name one of: "+e.s.Name+" sandbox list")
	}
	if len(o.Spec.ExternalWorkloads) == 0 {
		return "", wrong("sandbox "+e.sandbox+" has no external workload, so it has no requests for this machine", "add one, under local in its specification")
	}
	e.object = o
	for _, x := range o.Spec.ExternalWorkloads {
		if x.Baseline != nil && !x.Baseline.Fake {
			if err := fits(ctx, c, &x); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("its routing key is %s", o.Spec.ID), nil
}

// seen returns the state of the sandbox as the operator reports it. It returns a problem while that is
// not ready, as before its external workloads are connected.
func (e *examined) seen(context.Context) (string, error) {
	ready := crdv1.FindCondition(e.object.Status.Conditions, crdv1.ConditionReady)
	if ready == nil || ready.ObservedGeneration < e.object.Generation {
		return "", wrong("the operator has not reported on the current generation of sandbox "+e.sandbox, "run this command again; if that does not help, check that the controller manager runs: kubectl get pods -n "+e.s.Cluster.Namespace)
	}
	report := fmt.Sprintf("Ready is %s (%s): %s", ready.Status, ready.Reason, ready.Message)
	if crdv1.IsTrue(e.object.Status.Conditions, crdv1.ConditionReady, e.object.Generation) {
		return report, nil
	}
	switch ready.Reason {
	case externalworkload.ReasonNoTunnel, externalworkload.ReasonTunnelUnchecked, externalworkload.ReasonTunnelDisconnected, externalworkload.ReasonTunnelStale:
		return "", wrong(report, "run "+e.s.Name+" connect; if it runs already, see "+e.s.Name+" connect status, and restart it")
	}
	return "", wrong(report, "see its parts: kubectl describe signadotsandbox "+e.sandbox)
}

// fits returns an error where a mapping names a port that no container of the baseline has.
func fits(ctx context.Context, c client.Reader, x *crdv1.SandboxExternalWorkload) error {
	of, err := localenv.Baseline(ctx, c, x.Baseline.ObjectRef)
	if err != nil {
		return wrong(err.Error(), "name an existing baseline in the sandbox")
	}
	has := map[int32]bool{}
	var list []string
	for _, one := range of.Template.Spec.Containers {
		for _, p := range one.Ports {
			if !has[p.ContainerPort] {
				list = append(list, fmt.Sprint(p.ContainerPort))
			}
			has[p.ContainerPort] = true
		}
	}
	if x.Tunnel == nil || len(x.Tunnel.BaselineToLocals) == 0 {
		return wrong("external workload "+x.Name+" routes no port to a workstation", "add mappings to it in the sandbox")
	}
	for _, m := range x.Tunnel.BaselineToLocals {
		if len(has) > 0 && !has[m.BaselinePort] {
			return wrong(fmt.Sprintf("external workload %s maps port %d, which no container of the baseline names; they name %s", x.Name, m.BaselinePort, strings.Join(list, ", ")),
				"map the port of the container, not that of the Service")
		}
	}
	return nil
}

func mayLead(context.Context) (string, error) { return "", privileges.MayLead() }

func (e *examined) mayWrite(ctx context.Context) (string, error) {
	stream, err := e.api.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{Sandboxes: []string{e.sandbox}})
	if err != nil {
		return "", err
	}
	all, err := stream.Recv()
	if err != nil {
		return "", wrong(err.Error(), "ask the operator's administrator for the reason, which tunnel-api logs")
	}
	for _, s := range all.GetSandboxes() {
		switch {
		case s.GetSandboxName() != e.sandbox:
		case s.GetCallerIsAuthor():
			return "", nil
		default:
			return fmt.Sprintf("%s changed it last, so connect serves it only with --sandbox %s", cmp.Or(s.GetAuthor(), "a user that is not recorded"), e.sandbox), nil
		}
	}
	return "", wrong("you cannot update sandbox "+e.sandbox,
		"ask for the right to update signadotsandboxes, or see the annotation switchyard.dev/machine of the sandbox")
}

func (e *examined) locals(ctx context.Context) (string, error) {
	var all []string
	for _, x := range e.object.Spec.ExternalWorkloads {
		if x.Tunnel == nil {
			continue
		}
		for _, m := range x.Tunnel.BaselineToLocals {
			if err := listens(ctx, m.LocalAddress); err != nil {
				return "", err
			}
			all = append(all, m.LocalAddress)
		}
	}
	return strings.Join(all, ", "), nil
}

// allowed returns a problem if a running connect of this user refuses a local address of the sandbox.
// Without a running connect it passes: the operator's report has that.
func (e *examined) allowed(context.Context) (string, error) {
	return "", status.Refused(e.s, e.sandbox)
}
