package forwarded

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/hostile/slowbody"
	"switchyard.dev/tunnels/carrier"
)

// patience is how long a user waits for the first answer.
const patience = 15 * time.Second

// insecure is the TLS of a client that reaches a pod by its address.
var insecure = &tls.Config{InsecureSkipVerify: true}

// user is a user with a token of the cluster and the credentials that come of it.
type user struct {
	token string
	// ssh proves the user to the SSH port, and password to that of SOCKS5.
	ssh            ssh.Signer
	name, password string
	// unit is set for the pod of a unit, which has none of the above.
	unit slowbody.Unit
}

const namespace = "hotrod"

// newUsers makes users that may use the proxies, and issues their credentials.
func newUsers(ctx context.Context, w *listeners.World, n int) (all []user, err error) {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "hostile-users"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "signadot-developer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace}}}
	if _, err := w.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	api := listeners.Find("tunnel-api-api-9070")
	conn, err := grpc.NewClient("passthrough:///"+address(w, api, 0), grpc.WithTransportCredentials(credentials.NewTLS(insecure)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for i := range n {
		one := user{}
		name := fmt.Sprintf("hostile-user-%d", i)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := w.Client().CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if one.token, err = apiserver.Token(ctx, w.Client(), namespace, name, "", nil); err != nil {
			return nil, err
		}
		if err := one.enroll(ctx, tunnelv1.NewTunnelAPIClient(conn)); err != nil {
			return nil, fmt.Errorf("issue the credentials of %s: %w", name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func address(w *listeners.World, l *listeners.Listener, pod int) string {
	return fmt.Sprintf("%s:%d", w.Pods(l.Program)[pod].Status.PodIP, l.Port)
}

// enroll issues the user's credentials.
func (u *user) enroll(ctx context.Context, api tunnelv1.TunnelAPIClient) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+u.token)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	issued, err := api.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: string(ssh.MarshalAuthorizedKey(key))})
	if err != nil {
		return err
	}
	signed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(issued.Certificate))
	if err != nil {
		return err
	}
	certificate, is := signed.(*ssh.Certificate)
	if !is {
		return errors.New("tunnel-api issues no certificate")
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	if u.ssh, err = ssh.NewCertSigner(certificate, signer); err != nil {
		return err
	}
	socks, err := api.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
	u.name, u.password = socks.GetUser(), socks.GetPassword()
	return err
}

// first performs the handshake on a connection, which it closes, and returns once the first
// response has arrived.
type first func(ctx context.Context, u user, c net.Conn) error

// answers has the listeners that are attacked, and how their users come to the first answer.
var answers = map[string]first{
	"tunnel-proxy-tunnels-7777": byCarrier, "tunnel-proxy-ssh-2222": bySSH,
	"tunnel-proxy-socks5-1080": bySOCKS, "tunnel-api-api-9070": byAPI,
}

func byCarrier(ctx context.Context, u user, c net.Conn) error {
	secure := tls.Client(c, carrier.Secure(insecure))
	if err := secure.HandshakeContext(ctx); err != nil {
		return errors.Join(err, c.Close())
	}
	s, _, err := carrier.Connect(ctx, secure, &tunnelv1.Hello{Version: carrier.Version, Token: u.token, Session: rand.Text(), Epoch: 1})
	if err == nil {
		s.Close(nil)
	}
	return err
}

// dialSSH begins a session.
func dialSSH(u user, c net.Conn) (*ssh.Client, error) {
	conn, channels, requests, err := ssh.NewClientConn(c, "proxy", &ssh.ClientConfig{User: "anybody", Auth: []ssh.AuthMethod{ssh.PublicKeys(u.ssh)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return ssh.NewClient(conn, channels, requests), nil
}

func bySSH(_ context.Context, u user, c net.Conn) error {
	client, err := dialSSH(u, c)
	if err != nil {
		return err
	}
	defer client.Close()
	_, _, err = client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

// bySOCKS requests a connection to a Service of the demo.
func bySOCKS(_ context.Context, u user, c net.Conn) error {
	defer c.Close()
	const host, port = "customer.hotrod", 8081
	step := func(say []byte, n int, want byte, at int) error {
		got := make([]byte, n)
		_, err := c.Write(say)
		if err == nil {
			_, err = io.ReadFull(c, got)
		}
		if err == nil && got[at] != want {
			err = fmt.Errorf("SOCKS5 answers %v", got)
		}
		return err
	}
	if err := step([]byte{5, 1, 2}, 2, 2, 1); err != nil {
		return err
	}
	who := append([]byte{1, byte(len(u.name))}, u.name...)
	who = append(append(who, byte(len(u.password))), u.password...)
	if err := step(who, 2, 0, 1); err != nil {
		return err
	}
	ask := append([]byte{5, 1, 0, 3, byte(len(host))}, host...)
	return step(binary.BigEndian.AppendUint16(ask, port), 10, 0, 1)
}

// byAPI asks tunnel-api about the user's own sandboxes.
func byAPI(ctx context.Context, u user, c net.Conn) error {
	taken := make(chan net.Conn, 1)
	taken <- c
	conn, err := grpc.NewClient("passthrough:///forwarded", grpc.WithTransportCredentials(credentials.NewTLS(insecure)), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-taken:
				return c, nil
			default:
				return nil, errors.New("the connection was closed")
			}
		}))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer c.Close()
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+u.token)
	_, err = tunnelv1.NewTunnelAPIClient(conn).IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
	return err
}
