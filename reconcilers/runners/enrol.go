package runners

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/callers/tokens"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
)

// maxKey bounds a public key, in bytes.
const maxKey = 1 << 10

// Enrol implements jobexecv1.RunnersServer.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=signadot.com,resources=jobrunnergroups,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
func (s *server) Enrol(ctx context.Context, r *jobexecv1.EnrolRequest) (*jobexecv1.Enrolled, error) {
	token, from, err := streams.Bearer(ctx)
	if err != nil {
		return nil, err
	}
	who, err := s.cfg.Tokens.VerifyAdmitted(ctx, token, func(signed *tokens.Claim) (func(), error) { return s.checks.Enter(streams.Charged(from, signed)) })
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return nil, status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		s.cfg.Logger.Debug("the token of a runner could not be checked", "error", err)
		return nil, status.Error(codes.Unavailable, "the token could not be checked: try again")
	case who.PodName == "" || who.PodUID == "":
		return nil, status.Errorf(codes.PermissionDenied, "the token is that of the account %s, and of no pod", who)
	}
	leave, err := s.enter(ctx, who.PodUID, from)
	if err != nil {
		return nil, err
	}
	defer leave()
	if len(r.GetPublicKey()) > maxKey {
		return nil, status.Errorf(codes.InvalidArgument, "the public key is longer than %d bytes", maxKey)
	}
	public, err := x509.ParsePKIXPublicKey(r.GetPublicKey())
	if _, is := public.(*ecdsa.PublicKey); err != nil || !is {
		return nil, status.Error(codes.InvalidArgument, "the public key is none of ECDSA in PKIX form")
	}
	keys := s.cfg.Keys.keys.Load()
	if keys == nil {
		return nil, status.Error(codes.Unavailable, errNoKeys.Error())
	}
	if err := s.isRunner(ctx, keys, who); err != nil {
		return nil, err
	}
	cert, expires, err := keys.sign(who.PodUID, public, s.cfg.Clock())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the public key cannot be certified: "+err.Error())
	}
	s.cfg.Logger.Info("a runner was enrolled", "namespace", who.Namespace, "pod", who.PodName, "uid", who.PodUID, "expires", expires)
	return &jobexecv1.Enrolled{Certificate: cert, TicketKeys: []byte(keys.public.String()), Authority: keys.pem, Expires: timestamppb.New(expires)}, nil
}

// isRunner returns nil if the pod of a token is one that the operator has created for a runner group. All other pods
// get the same answer.
func (s *server) isRunner(ctx context.Context, keys *Keys, who tokens.Identity) error {
	no := status.Errorf(codes.PermissionDenied, "pod %s/%s (%s) is no runner: the status of no runner group has it as one that the operator has created",
		who.Namespace, who.PodName, who.PodUID)
	pod := &corev1.Pod{}
	if err := s.read(ctx, client.ObjectKey{Namespace: who.Namespace, Name: who.PodName}, pod); err != nil {
		return orElse(err, no)
	}
	owner := metav1.GetControllerOf(pod) // Anyone can write it: it only names the group that has the proof.
	if owner == nil || owner.Kind != crdv1.KindJobRunnerGroup || owner.APIVersion != crdv1.GroupVersion().String() {
		return no
	}
	g := &crdv1.JobRunnerGroup{}
	if err := s.read(ctx, client.ObjectKey{Namespace: who.Namespace, Name: owner.Name}, g); err != nil {
		return orElse(err, no)
	}
	recorded := g.Runner(types.UID(who.PodUID))
	if recorded == nil {
		return no
	}
	if !keys.proven(g.UID, types.UID(who.PodUID), recorded.Proof) {
		s.cfg.Logger.Warn("the status of a runner group names a pod without the operator's signature: another user wrote it, or the keys of runners were replaced; in that case delete the pod",
			"group", g.Name, "namespace", g.Namespace, "pod", pod.Name)
		return no
	}
	return nil
}

// read reads an object from the API server. The error is errAbsent, or a gRPC status for the caller.
func (s *server) read(ctx context.Context, key client.ObjectKey, o client.Object) error {
	err := s.cfg.Live.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return errAbsent
	case err != nil:
		s.cfg.Logger.Warn("an object cannot be read, so a runner or a user is refused", "object", fmt.Sprintf("%T %s", o, key), "error", err)
		return status.Error(codes.Unavailable, "the API server could not be asked: try again")
	}
	return nil
}

var errAbsent = errors.New("the object does not exist")

// orElse returns the answer for an object that is absent, or err.
func orElse(err, absent error) error {
	if errors.Is(err, errAbsent) {
		return absent
	}
	return err
}
