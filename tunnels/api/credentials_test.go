package api_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

// TestUsersOfAControlPlane has one with rights of its own; what would outlive the credential, or needs
// a token of the API server, is refused.
func TestUsersOfAControlPlane(t *testing.T) {
	s := newSite(t, "linked")
	prod := signed.Cluster{Organisation: s.ns, Name: "prod"}
	store := func(key ed25519.PrivateKey) {
		t.Helper()
		keys, err := signed.KeysOf(key.Public().(ed25519.PublicKey))
		s.Must(err)
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: controlkeys.ConfigMap}, Data: controlkeys.Data(prod, keys)}
		_, err = s.Kube.CoreV1().ConfigMaps(s.ns).Update(t.Context(), o, metav1.UpdateOptions{})
		s.Must(err)
	}
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: controlkeys.ConfigMap}})
	key := func(seed byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	}
	store(key(1))
	jo := identity.User{Name: crdv1.ControlPlanePrefix + s.ns + ":jo", Groups: []string{crdv1.ControlPlanePrefix + s.ns}}
	s.Grant(jo.Name, "", rule(crdv1.Group, "signadotsandboxes", "list", "update"), rule("", "services", "list"))
	issue := func(seed byte) context.Context {
		t.Helper()
		credential, _, err := signed.Issue(key(seed), prod, jo, time.Now())
		s.Must(err)
		return metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+credential)
	}
	ctx := issue(1)
	stream, err := s.client.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{})
	s.Must(err)
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("its sandboxes: %v", err)
	}
	for what, call := range map[string]func() error{
		"an SSH certificate": func() error {
			_, err := s.client.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{})
			return err
		},
		"a SOCKS5 credential": func() error {
			_, err := s.client.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
			return err
		},
		"outputs of resources": func() error {
			_, err := s.client.GetResourceOutputs(ctx, &tunnelv1.GetResourceOutputsRequest{})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "a user of the control plane: use ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	store(key(2))
	s.Eventually("the end of the stream with its key", func() error {
		if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "No key of the control plane") {
			return fmt.Errorf("it is %w", err)
		}
		return nil
	})
	if _, err := s.client.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a credential of the removed key: %v", err)
	}
}
