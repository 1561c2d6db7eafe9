package api

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/credential"
	"switchyard.dev/tunnels/sshcert"
)

// sshHosts are the names by which clients find the proxies in a known_hosts file: their Service,
// the local end of a port-forward whatever its port, and the value for HostKeyAlias.
var sshHosts = []string{"[tunnel-proxy.*]:2222", "[localhost]:*", "[127.0.0.1]:*", "[::1]:*", "tunnel-proxy"}

// maxKey bounds a public key, in bytes.
const maxKey = 8 << 10

// IssueSSHCertificate implements tunnelv1.TunnelAPIServer.
func (s *server) IssueSSHCertificate(ctx context.Context, request *tunnelv1.IssueSSHCertificateRequest) (*tunnelv1.IssueSSHCertificateResponse, error) {
	c, leave, err := s.admitted(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if len(request.GetPublicKey()) > maxKey {
		return nil, status.Errorf(codes.InvalidArgument, "the public key is longer than %d bytes", maxKey)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(request.GetPublicKey()))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the public key is none: give the line of a file such as id_ed25519.pub")
	}
	cert, err := sshcert.Issue(s.cfg.Keys.SSHCA, rand.Reader, key, c.user, time.Now())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	expires := time.Unix(int64(cert.ValidBefore), 0)
	s.cfg.Logger.Info("an SSH certificate was issued", "user", c.user.Name, "from", c.from, "key", ssh.FingerprintSHA256(key), "serial", cert.Serial, "expires", expires)
	host := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.cfg.Keys.Host)))
	return &tunnelv1.IssueSSHCertificateResponse{
		Certificate: string(ssh.MarshalAuthorizedKey(cert)), KnownHosts: strings.Join(sshHosts, ",") + " " + host + "\n",
		Expires: timestamppb.New(expires),
	}, nil
}

// IssueSOCKSCredential implements tunnelv1.TunnelAPIServer.
func (s *server) IssueSOCKSCredential(ctx context.Context, _ *tunnelv1.IssueSOCKSCredentialRequest) (*tunnelv1.IssueSOCKSCredentialResponse, error) {
	c, leave, err := s.admitted(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	password, expires, err := credential.Issue(s.cfg.Keys.SOCKS, c.user.Name, time.Now())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	s.cfg.Logger.Info("a credential for SOCKS5 was issued", "user", c.user.Name, "from", c.from, "expires", expires)
	return &tunnelv1.IssueSOCKSCredentialResponse{User: c.user.Name, Password: password, Expires: timestamppb.New(expires)}, nil
}

// admitted is admit for callers that may use the tunnel proxies. Users of a control plane are
// refused: a certificate or password would outlive their credential.
func (s *server) admitted(ctx context.Context) (c caller, leave func(), err error) {
	if c, leave, err = s.admit(ctx, s.requests); err != nil {
		return c, nil, err
	}
	err = s.ofCluster(c, "use `switchyard connect`, which opens ports of this machine for other programs")
	if err == nil {
		if refused := s.cfg.Access.MayUse(ctx, c.user); refused != nil {
			err = refusal(refused)
		}
	}
	if err != nil {
		leave()
		return c, nil, err
	}
	return c, leave, nil
}
